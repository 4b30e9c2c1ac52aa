/** Progress of slow work: silent for the first two seconds, then a line every few seconds. */

import { type Clock, systemClock } from './async.ts';

/** Milliseconds before the first report, and between reports of measured progress. */
const PATIENCE_MS = 2000;
/** Milliseconds between reports of work that cannot measure its progress. */
const BEAT_MS = 10_000;

type Report = (words: string) => void;
type Now = Pick<Clock, 'now'>;

/** Returns a function that passes words to `report` at most every two seconds, and not during the first two. */
export function createSlowReporter(report: Report, { now }: Now = systemClock): Report {
  let reportedMs = now();
  return (words) => {
    if (now() - reportedMs < PATIENCE_MS) return;
    reportedMs = now();
    report(words);
  };
}

/** Returns the result of `work`; reports the words and the seconds so far if it takes longer than two seconds. */
export async function whileSlow<T>(
  words: string,
  report: Report,
  work: () => Promise<T>,
  clock: Clock = systemClock,
): Promise<T> {
  const done = new AbortController();
  const startedMs = clock.now();
  const beats = async () => {
    for (let waitMs = PATIENCE_MS; ; waitMs = BEAT_MS) {
      await clock.sleep(waitMs, done.signal);
      report(`${words}: ${Math.round((clock.now() - startedMs) / 1000)} s so far`);
    }
  };
  beats().catch(() => undefined);
  try {
    return await work();
  } finally {
    done.abort();
  }
}

/** Progress of a measurement in batches. */
export interface BatchProgress {
  readonly batch: number;
  readonly batches: number;
  /** Mean loss of the batches so far. */
  readonly loss: number;
}

/** Returns a function that reports how many batches are measured, if that takes longer than two seconds. */
export function measuringReporter(what: string, report: Report): (progress: BatchProgress) => void {
  const slowly = createSlowReporter(report);
  return ({ batch, batches, loss }) => {
    if (batch < batches)
      slowly(`${what}: ${batch} of ${batches} batches measured, loss ${loss.toFixed(3)} so far`);
  };
}

/** Returns a function that reports the share of a file that is done, if that takes longer than two seconds. */
export function shareReporter(what: string, report: Report): (have: number, of: number) => void {
  const slowly = createSlowReporter(report);
  return (have, of) => slowly(`${what}: ${Math.floor((100 * have) / Math.max(of, have, 1))} %`);
}
