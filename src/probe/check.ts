/** All relays at once, and what is going on told on stderr when it takes a while. */
import { systemClock } from '../base/clock.ts';
import type { Judged } from '../cli/relays-check/table.ts';
import { createSigner } from '../network/event.ts';
import { parseRelayUrls } from '../network/transport/relay-urls.ts';
import { createSecretKey } from '../node/keys.ts';
import { nativeCrypto } from '../node/native-crypto.ts';
import { openSocket } from '../node/sockets.ts';
import { safeLine } from '../terminal/render/text.ts';
import { probeRelay } from './probe.ts';
import { judgeRelay } from './verdict.ts';

const OPEN_TIMEOUT_MS = 10_000;
const ANSWER_TIMEOUT_MS = 10_000;
/** A little more than a relay that takes five events a minute needs for the next one. */
const PAUSE_MS = 13_000;
const TOLD_AFTER_MS = 2000;

export interface CheckOptions {
  /** Longest time for one relay, but for the deletion at its end. */
  readonly timeLimitMs: number;
  readonly signal: AbortSignal;
}

/** Tries every relay with a key of its own that is thrown away; throws a ConfigError when an address is wrong. */
export async function checkRelays(
  urls: readonly string[],
  { timeLimitMs, signal }: CheckOptions,
): Promise<readonly Judged[]> {
  const progress = tellProgress();
  const probe = async (url: string): Promise<Judged> => {
    const report = await probeRelay(url, {
      ...{ openSocket, clock: systemClock, signal, timeLimitMs },
      signer: createSigner(createSecretKey(), nativeCrypto),
      openTimeoutMs: Math.min(OPEN_TIMEOUT_MS, timeLimitMs),
      answerTimeoutMs: Math.min(ANSWER_TIMEOUT_MS, timeLimitMs / 4),
      pauseMs: Math.min(PAUSE_MS, timeLimitMs / 4),
      onStep: (step) => progress.step(url, step),
    });
    progress.done(url);
    return { report, verdict: judgeRelay(report) };
  };
  try {
    return await Promise.all(parseRelayUrls(urls).map(probe));
  } finally {
    progress.close();
  }
}

/** Every two seconds a line for each relay that has come further. */
function tellProgress() {
  const steps = new Map<string, string>();
  const told = new Map<string, string>();
  const timer = setInterval(() => {
    for (const [url, step] of steps) {
      if (told.get(url) === step) continue;
      told.set(url, step);
      process.stderr.write(`${safeLine(url)}: ${safeLine(step)}\n`);
    }
  }, TOLD_AFTER_MS);
  return {
    step: (url: string, step: string) => steps.set(url, step),
    done: (url: string) => steps.delete(url),
    close: () => clearInterval(timer),
  };
}
