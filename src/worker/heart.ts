/**
 * Heartbeats: the first at once, then one whenever this worker has given no sign of life for an interval, also while the
 * inner steps run; a last one says goodbye. Relays that take any rate also hear of every change when it happens.
 */
import { within } from '../network/transport/deadline.ts';
import type { Beat } from '../run/beat.ts';
import { isStale } from '../run/beat.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Session } from './session.ts';

/** What the next beat says. */
export interface Pulse {
  readonly round: number;
  readonly digest: Digest;
  readonly cohort: readonly WorkerId[] | undefined;
}

export interface Heart {
  /** Beats say this from now on. */
  say(pulse: Pulse): void;
  /** Sends a beat that says this now; true as soon as a relay took it. */
  tell(pulse: Pulse): Promise<boolean>;
  /** Sends the leaving beat and stops. */
  stop(): Promise<void>;
}

/** A relay that is slower than this does not hear the goodbye. */
const FAREWELL_MS = 3000;

export function createHeart({ plan, ports, reference }: Session): Heart {
  const { clock, wire, report } = ports;
  const intervalMs = plan.heartbeatSeconds * 1000;
  const stopping = new AbortController();
  let pulse: Pulse | undefined;
  let beating: Promise<void> | undefined;

  /** Resolves once a relay took it or none did; the run does not wait for that. */
  async function send(leaving: boolean): Promise<boolean> {
    if (!pulse) return false;
    const sending = wire.beat({
      ...pulse,
      intervalSeconds: plan.heartbeatSeconds,
      examples: reference?.examples,
      leaving,
    });
    const { taken, settled } = sending;
    if (reference && !leaving) reference.notes.heartbeat = sending;
    if (await taken) return true;
    if (leaving) return false;
    const why = (await settled).failed.map(({ relay, message }) => `${relay} ${message}`);
    report({ type: 'notice', message: `no relay took the heartbeat (${why.join('; ')})` });
    return false;
  }

  async function keepBeating(): Promise<void> {
    while (!stopping.signal.aborted) {
      const dueMs = intervalMs - wire.silentMs;
      if (dueMs <= 0) void send(false);
      await clock.sleep(dueMs <= 0 ? intervalMs : dueMs, stopping.signal).catch(() => undefined);
    }
  }

  return {
    say(next) {
      pulse = next;
      // the reference beats once a round, and looks for the beat of the round
      if (!beating || !wire.isPaced || reference) void send(false);
      beating ??= keepBeating();
    },
    tell(next) {
      pulse = next;
      return send(false);
    },
    async stop() {
      stopping.abort();
      await beating;
      await within(send(true), FAREWELL_MS, clock);
    },
  };
}

/** Workers with a fresh beat, ascending; this one always counts. */
export function liveWorkers({ plan, ports: { clock, wire } }: Session): WorkerId[] {
  const nowSeconds = clock.now() / 1000;
  const fresh = (beat: Beat) => !isStale(beat, nowSeconds, plan.maxMissedHeartbeats);
  const live = new Set<WorkerId>([wire.me]);
  for (const beat of wire.beats.values()) if (fresh(beat)) live.add(beat.worker);
  return [...live].sort();
}
