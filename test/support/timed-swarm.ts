/** Runs certified workers over a relay in memory, on a clock that the test moves: hours take moments, reproducibly. */

import type { RelaySet, SignedEvent } from 'nostrain/network';
import type { RunSpec } from 'nostrain/run';
import { onTestFinished } from 'vitest';
import { type CertifiedMember, type CertifiedOptions, startCertified } from './certified-swarm.ts';
import { createManualClock, type ManualClock } from './manual-clock.ts';
import { createMemoryRelay, type MemoryRelayOptions } from './memory-relays.ts';

export type TimedOptions = Partial<CertifiedOptions> & Pick<CertifiedOptions, 'index'>;

export interface TimedSwarm {
  readonly clock: ManualClock;
  /** Everything the relay holds. */
  readonly events: readonly SignedEvent[];
  /** Connects to the relay; delivers only events for which `hears` returns true, by default all. */
  connect(hears?: (event: SignedEvent) => boolean): RelaySet;
  start(options: TimedOptions): CertifiedMember;
  /** Deletes everything on the relay, as if an empty relay replaced it. */
  forget(): void;
  /** Stores an event without checking its author. */
  put(event: SignedEvent): void;
  /** Advances time by seconds until `holds` returns true; returns the seconds. Throws after `atMost` seconds. */
  secondsUntil(holds: () => boolean, atMost: number): Promise<number>;
  /** Advances time until all members have ended. Rejects if one fails, or one still runs after `atMost` seconds. */
  finish(members: readonly CertifiedMember[], atMost: number): Promise<number>;
}

/** Creates a swarm whose inner steps take `trainSeconds`. Call it in a test; the workers stop when the test ends. */
export function createTimedSwarm(
  spec: RunSpec,
  trainSeconds: number,
  options: MemoryRelayOptions = {},
): TimedSwarm {
  const clock = createManualClock();
  const relay = createMemoryRelay('ws://memory.test', options);
  async function secondsUntil(holds: () => boolean, atMost: number): Promise<number> {
    for (let seconds = 0; seconds <= atMost; seconds++) {
      // no time passes before the first check
      await clock.advance(seconds === 0 ? 0 : 1000);
      if (holds()) return seconds;
    }
    throw new Error(`not within ${atMost} seconds`);
  }
  return {
    clock,
    events: relay.events,
    connect: relay.connect,
    put: relay.put,
    forget: () => void relay.events.splice(0),
    start(options) {
      const common = { clock, relays: relay.connect(), spec, trainMs: 1000 * trainSeconds };
      const member = startCertified({ ...common, ...options });
      onTestFinished(() => member.stop());
      return member;
    },
    secondsUntil,
    async finish(members, atMost) {
      let isOver = false;
      const all = Promise.all(members.map(({ finished }) => finished));
      const end = () => {
        isOver = true;
      };
      all.then(end, end);
      const seconds = await secondsUntil(() => isOver, atMost);
      await all;
      return seconds;
    },
  };
}
