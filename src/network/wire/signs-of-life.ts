/** What this worker sends so that others know it is there: heartbeats, and gradients where peers take those for heartbeats. */
import { anySignal } from '../../base/async.ts';
import type { Heartbeat } from '../../run/heartbeat.ts';
import { type Sending, trackOutcomes, watchLater } from '../transport/delivery.ts';
import { withoutSecrets } from '../transport/relay-urls.ts';
import type { Profile, ProfileOptions } from './profile.ts';
import type { OwnHeartbeat, Sealed } from './wire.ts';

export interface SignsOfLife {
  /** Sends a heartbeat. One that still waits for its turn at a relay gives way to the next sign, which counts as taking it. */
  sendHeartbeat(own: OwnHeartbeat): Sending;
  /** A gradient is on its way. */
  gradient(sealed: Sealed, sending: Sending): void;
  /** Whether a heartbeat of this key comes from another process: it is newer than the first one from here, and not from here. */
  isForeign(heartbeat: Heartbeat): boolean;
  /** Milliseconds since the last one; 0 while a gradient that is one waits for its turn. */
  readonly silentMs: number;
}

/** Own heartbeats whose dates are remembered; one that is older than these tells nothing. */
const MOST_DATES = 256;

/** A process that was just started follows one whose last heartbeat may be dated a little ahead. */
const RESTART_SECONDS = 2;

export function createSignsOfLife(
  { relays, signer, clock, signWorked, signal, advertise = [] }: ProfileOptions,
  { worker, advertised, buildHeartbeat, capabilities, gradientsAreHeartbeats }: Profile,
): SignsOfLife {
  let lastMs = clock.now();
  let lastHeartbeatSeconds = 0;
  /** Of the last heartbeats from here, oldest first. */
  let dates: readonly number[] = [];
  let gradientsInLine = 0;
  let inLine = new AbortController();
  /** Some heartbeat of this worker is there to be found. */
  let isKnown = false;

  return {
    sendHeartbeat(own) {
      inLine.abort(new Error('a newer heartbeat is on its way'));
      inLine = new AbortController();
      const { signal: replaced } = inLine;
      lastMs = clock.now();
      // relays keep the newest heartbeat, so one worker's must never share a second
      lastHeartbeatSeconds = Math.max(Math.floor(lastMs / 1000), lastHeartbeatSeconds + 1);
      dates = [...dates, lastHeartbeatSeconds].slice(-MOST_DATES);
      const heartbeat: Heartbeat = {
        ...own,
        worker: worker ?? signer.publicKey,
        capabilities,
        relays: [...new Set((advertised ?? advertise).map(withoutSecrets))],
        createdAt: lastHeartbeatSeconds,
      };
      const { signal: either, release } = anySignal(signal, replaced);
      const { taken, ...sending } = watchLater(
        signWorked(buildHeartbeat(heartbeat)).then((event) =>
          trackOutcomes(event, relays.send(event, { signal: either }), relays),
        ),
      );
      void sending.settled.then(release);
      const isSaid = taken.then((isTaken) => {
        isKnown ||= isTaken;
        return isTaken || replaced.aborted;
      });
      return { ...sending, taken: isSaid };
    },
    gradient({ payload }, { taken }) {
      if (!gradientsAreHeartbeats) return;
      // one in chunks is behind them in line: heartbeats go on meanwhile
      const isInLine = payload === undefined;
      if (isInLine) gradientsInLine++;
      if (isInLine && isKnown) inLine.abort(new Error('the gradient says as much'));
      void taken.then((isTaken) => {
        if (isInLine) gradientsInLine--;
        if (isTaken) lastMs = clock.now();
      });
    },
    isForeign({ worker: key, createdAt, leaving }) {
      // who goes by another name than its key may share the key
      const [oldest] = dates;
      if (worker !== undefined || key !== signer.publicKey || oldest === undefined) return false;
      return !leaving && createdAt > oldest + RESTART_SECONDS && !dates.includes(createdAt);
    },
    get silentMs() {
      return gradientsInLine > 0 ? 0 : clock.now() - lastMs;
    },
  };
}
