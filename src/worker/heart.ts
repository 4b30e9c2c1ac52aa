/** Heartbeats: one at every change, then one an interval, also while the inner steps run; a last one says goodbye. */
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
  /** Sends a beat now and keeps sending it every interval. */
  say(pulse: Pulse): void;
  /** Sends the leaving beat and stops. */
  stop(): Promise<void>;
}

/** A relay that is slower than this does not hear the goodbye. */
const FAREWELL_MS = 3000;

export function createHeart({ plan, ports: { clock, wire, report } }: Session): Heart {
  const stopping = new AbortController();
  let pulse: Pulse | undefined;
  let beating: Promise<void> | undefined;

  /** Resolves once a relay took it or none did; the run does not wait for that. */
  async function send(leaving: boolean): Promise<void> {
    if (!pulse) return;
    const { taken, settled } = wire.beat({
      ...pulse,
      intervalSeconds: plan.heartbeatSeconds,
      examples: undefined,
      leaving,
    });
    if (await taken) return;
    const why = (await settled).failed.map(({ relay, message }) => `${relay} ${message}`);
    report({ type: 'notice', message: `no relay took the heartbeat (${why.join('; ')})` });
  }

  async function keepBeating(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(plan.heartbeatSeconds * 1000, stopping.signal).catch(() => undefined);
      if (!stopping.signal.aborted) void send(false);
    }
  }

  return {
    say(next) {
      pulse = next;
      void send(false);
      beating ??= keepBeating();
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
