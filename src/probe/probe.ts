/** Tries relays with sample events and reports what each allows. Runs in a browser: all ports come from the caller. */
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

const OPEN_TIMEOUT_MS = 10_000;
const ANSWER_TIMEOUT_MS = 10_000;
/** A little more than a relay that takes five events a minute needs for the next one. */
const PAUSE_MS = 13_000;

/** Fetches what a relay says of itself and how far its clock is off; empty where it does not say. */
export type DescribeRelay = (url: string, signal: AbortSignal) => Promise<RelayDescription>;

/** What `checkRelays` takes beside the addresses. */
export interface CheckOptions {
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
  readonly describe: DescribeRelay;
  /** For ids, signatures and proof of work; default pure JavaScript. */
  readonly crypto?: EventCrypto;
  /** Longest time for one relay, but for the deletion at its end. */
  readonly timeLimitMs: number;
  readonly signal: AbortSignal;
  /** Told what is being tried at a relay; `undefined` when its trial is over. */
  readonly onStep?: (url: string, step: string | undefined) => void;
}

/** What a trial found out about a relay, and what follows for a run. */
export interface CheckedRelay {
  readonly report: RelayReport;
  readonly verdict: Verdict;
}

/** Tries all relays at once, each with a throwaway key. Throws a ConfigError when an address is wrong. */
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

/** Tries one relay and deletes what it left there. Rejects only when aborted; an unreachable relay has a `problem`. */
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
    const found = await new Trial(sender, samples, options, maxMessageLength).run();
    return {
      url: withoutSecrets(url),
      openedMs,
      ...about,
      ...found,
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
