/** Tells how far a payload in chunks is, while it is on its way and no oftener than it moves. */
import type { Progress } from '../network/transport/delivery.ts';
import type { Session } from './session.ts';

/** Between two looks at what moves. */
export const TOLD_MS = 1000;

/** Reports what has changed since it was called last. */
export function movedTeller({
  ports: { report },
}: Session): (way: 'out' | 'in', round: number, moved: Progress) => void {
  let told = '';
  return (way, round, { have, of }) => {
    const line = `${way}/${round}/${have}/${of}`;
    if (line === told) return;
    told = line;
    report({ type: 'moving', way, round, have, of });
  };
}

/** The promise's value; reports every second how far it is until then. */
export async function tellWhile<T>(
  promise: Promise<T>,
  round: number,
  moved: () => Progress,
  session: Session,
): Promise<T> {
  const tell = movedTeller(session);
  const done = new AbortController();
  const watch = async (): Promise<void> => {
    while (!done.signal.aborted) {
      await session.ports.clock.sleep(TOLD_MS, done.signal).catch(() => undefined);
      if (!done.signal.aborted) tell('out', round, moved());
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
