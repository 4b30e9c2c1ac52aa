/** Reports how far chunked payloads have come, at most once a second and only when the count changed. */
import type { Progress } from '../network/transport/delivery.ts';
import type { Session } from './ports.ts';

/** Between two reports. */
export const REPORT_MS = 1000;

/** Reports what has changed since it was called last. */
export function progressReporter({
  ports: { report },
}: Session): (way: 'out' | 'in', round: number, progress: Progress) => void {
  let reported = '';
  return (way, round, { have, of }) => {
    const line = `${way}/${round}/${have}/${of}`;
    if (line === reported) return;
    reported = line;
    report({ type: 'transfer', way, round, have, of });
  };
}

/** The promise's value; until then reports every second how far the upload is. */
export async function reportWhile<T>(
  promise: Promise<T>,
  round: number,
  progress: () => Progress,
  session: Session,
): Promise<T> {
  const reporter = progressReporter(session);
  const done = new AbortController();
  const watch = async (): Promise<void> => {
    while (!done.signal.aborted) {
      await session.ports.clock.sleep(REPORT_MS, done.signal).catch(() => undefined);
      if (!done.signal.aborted) reporter('out', round, progress());
    }
  };
  const watching = watch();
  try {
    return await promise;
  } finally {
    done.abort();
    await watching;
  }
}
