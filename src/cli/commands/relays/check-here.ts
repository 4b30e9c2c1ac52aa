/** Relay trials from this machine, with progress on stderr when they take a while; for `relays check` and `plan --check`. */

import { systemClock } from '../../../base/async.ts';
import { safeLine } from '../../../base/errors.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { describeRelay, openSocket } from '../../../node/net/relays.ts';
import { type CheckedRelay, type CheckOptions, checkRelays } from '../../../probe/index.ts';
import { writeNote } from '../../../terminal/output.ts';

const TOLD_EVERY_MS = 2000;

export async function checkRelaysHere(
  urls: readonly string[],
  options: Pick<CheckOptions, 'timeLimitMs' | 'signal'>,
): Promise<readonly CheckedRelay[]> {
  const progress = tellProgress();
  const ports = { openSocket, clock: systemClock, crypto: nativeCrypto, describe: describeRelay };
  try {
    return await checkRelays(urls, { ...ports, ...options, onStep: progress.step });
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
      writeNote(`${safeLine(url)}: ${safeLine(step)}`);
    }
  }, TOLD_EVERY_MS);
  return {
    step(url: string, step: string | undefined) {
      if (step === undefined) steps.delete(url);
      else steps.set(url, step);
    },
    close: () => clearInterval(timer),
  };
}
