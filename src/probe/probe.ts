/** Tests relays with sample events and reports what each allows. Runs in a browser: all ports come from the caller. */
import { schnorr } from '@noble/curves/secp256k1.js';
import type { Clock } from '../base/async.ts';
import { createSigner } from '../network/event.ts';
import { type EventCrypto, pureCrypto } from '../network/event-crypto.ts';
import { parseRelayUrls, withoutSecrets } from '../network/transport/relay-urls.ts';
import type { OpenSocket } from '../network/transport/socket.ts';
import { Conversation } from './conversation.ts';
import { judgeRelay, type RelayDescription, type RelayReport, type Verdict } from './report.ts';
import { type ProbeOptions, ProbeSender } from './sender.ts';
import { createSamples, Trial } from './trial.ts';

/** Time limits of a connection attempt and of an answer; shorter with a short `timeLimitMs`. */
const OPEN_TIMEOUT_MS = 10_000;
const ANSWER_TIMEOUT_MS = 10_000;
/** Pause after `rate-limited`: slightly longer than the interval of a relay that accepts five events a minute. */
const PAUSE_MS = 13_000;

/** Fetches a relay's self-description (NIP-11) and its clock difference; fields that it does not publish are absent. */
export type DescribeRelay = (url: string, signal: AbortSignal) => Promise<RelayDescription>;

/** Ports and limits of `checkRelays`. */
export interface CheckOptions {
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
  readonly describe: DescribeRelay;
  /** For ids, signatures and proof of work; default pure JavaScript. */
  readonly crypto?: EventCrypto;
  /** Time limit for one relay, not counting the deletion at the end. */
  readonly timeLimitMs: number;
  readonly signal: AbortSignal;
  /** Called with the current step of a relay's trial; with `undefined` when the trial is over. */
  readonly onStep?: (url: string, step: string | undefined) => void;
}

/** Measurements of a relay, and what follows for a run. */
export interface CheckedRelay {
  readonly report: RelayReport;
  readonly verdict: Verdict;
}

/** Tests all relays concurrently, each with a throwaway key. Throws a ConfigError if an address is invalid. */
export function checkRelays(
  urls: readonly string[],
  options: CheckOptions,
): Promise<readonly CheckedRelay[]> {
  const { crypto = pureCrypto, timeLimitMs, onStep = () => {}, ...ports } = options;
  const check = async (url: string): Promise<CheckedRelay> => {
    const report = await probeRelay(url, {
      ...ports,
      timeLimitMs,
      sha256Text: crypto.sha256Text,
      signer: createSigner(schnorr.utils.randomSecretKey(), crypto),
      openTimeoutMs: Math.min(OPEN_TIMEOUT_MS, timeLimitMs),
      answerTimeoutMs: Math.min(ANSWER_TIMEOUT_MS, timeLimitMs / 4),
      pauseMs: Math.min(PAUSE_MS, timeLimitMs / 4),
      onStep: (step) => onStep(withoutSecrets(url), step),
    });
    onStep(withoutSecrets(url), undefined);
    return { report, verdict: judgeRelay(report) };
  };
  return Promise.all(parseRelayUrls(urls).map(check));
}

/**
 * Tests one relay and deletes the sample events afterwards. Rejects only if aborted; an unreachable relay has a
 * `problem`.
 */
export async function probeRelay(
  url: string,
  options: ProbeOptions & Pick<CheckOptions, 'describe'>,
): Promise<RelayReport> {
  const { clock, signal, signer, onStep, describe } = options;
  const startMs = clock.now();
  onStep('reading its description');
  const about = await describe(url, signal);
  const openingMs = clock.now();
  const writer = await Conversation.open(url, options);
  const openedMs = clock.now() - openingMs;
  if (typeof writer === 'string') return unreachable(url, writer, about);
  const reader = await Conversation.open(url, options);
  if (typeof reader === 'string') {
    writer.close();
    return unreachable(url, `a second connection: ${reader}`, about);
  }
  const { minPowDifficulty, maxMessageLength } = about.stated?.limitation ?? {};
  const sender = new ProbeSender(url, [writer, reader], options, minPowDifficulty);
  try {
    const samples = createSamples(signer.publicKey, () => Math.floor(clock.now() / 1000));
    const measured = await new Trial(sender, samples, options, maxMessageLength).run();
    return {
      url: withoutSecrets(url),
      openedMs,
      ...about,
      ...measured,
      auth: sender.auth,
      rate: sender.rate,
      ...(sender.work === undefined ? {} : { work: sender.work }),
      ...(sender.hangUps === undefined ? {} : { hangUps: sender.hangUps }),
      ...(sender.clockWords === undefined ? {} : { clockWords: sender.clockWords }),
      spent: { ...sender.spent, seconds: (clock.now() - startMs) / 1000 },
    };
  } finally {
    sender.close();
  }
}

const unreachable = (url: string, problem: string, about: RelayDescription): RelayReport => ({
  url: withoutSecrets(url),
  problem,
  ...about,
  auth: { write: false, read: false },
  size: { keptBytes: 0 },
  rate: { accepted: 0, seconds: 0 },
  kinds: {},
  filters: { s: 'unknown', c: 'unknown' },
  spent: { events: 0, bytes: 0, seconds: 0 },
});
