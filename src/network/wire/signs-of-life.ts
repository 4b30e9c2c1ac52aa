/** What this worker sends so that others know it is there: beats, and gradients where peers take those for beats. */
import type { Beat } from '../../run/beat.ts';
import type { Sending } from '../transport/delivery.ts';
import { trackOutcomes, watchLater } from '../transport/delivery.ts';
import type { Profile, ProfileOptions } from './profile.ts';
import type { OwnBeat, Sealed } from './wire.ts';

export interface SignsOfLife {
  /** Sends a beat. One that still waits for its turn at a relay gives way to the next sign, which counts as taking it. */
  beat(own: OwnBeat): Sending;
  /** A gradient is on its way. */
  gradient(sealed: Sealed, sending: Sending): void;
  /** Milliseconds since the last one; 0 while a gradient that is one waits for its turn. */
  readonly silentMs: number;
}

export function createSignsOfLife(
  { relays, signer, clock, signWorked, signal, reference }: ProfileOptions,
  { buildBeat, capabilities, gradientsBeat }: Profile,
): SignsOfLife {
  let lastMs = clock.now();
  let lastBeatSeconds = 0;
  let gradientsInLine = 0;
  let inLine = new AbortController();
  /** Some beat of this worker is there to be found. */
  let isKnown = false;

  return {
    beat(own) {
      inLine.abort(new Error('a newer beat is on its way'));
      inLine = new AbortController();
      const { signal: replaced } = inLine;
      lastMs = clock.now();
      // relays keep the newest heartbeat, so one worker's must never share a second
      lastBeatSeconds = Math.max(Math.floor(lastMs / 1000), lastBeatSeconds + 1);
      const beat: Beat = {
        ...own,
        worker: reference?.worker ?? signer.publicKey,
        capabilities,
        relays: reference?.advertised ?? relays.relays,
        createdAt: lastBeatSeconds,
      };
      const sendOptions = { signal: AbortSignal.any([signal, replaced]) };
      const { taken, ...sending } = watchLater(
        signWorked(buildBeat(beat)).then((event) =>
          trackOutcomes(event, relays.send(event, sendOptions), relays),
        ),
      );
      const isSaid = taken.then((isTaken) => {
        isKnown ||= isTaken;
        return isTaken || replaced.aborted;
      });
      return { ...sending, taken: isSaid };
    },
    gradient({ payload }, { taken }) {
      if (!gradientsBeat) return;
      // one in chunks is behind them in line: beats go on meanwhile
      const isInLine = payload === undefined;
      if (isInLine) gradientsInLine++;
      if (isInLine && isKnown) inLine.abort(new Error('the gradient says as much'));
      void taken.then((isTaken) => {
        if (isInLine) gradientsInLine--;
        if (isTaken) lastMs = clock.now();
      });
    },
    get silentMs() {
      return gradientsInLine > 0 ? 0 : clock.now() - lastMs;
    },
  };
}
