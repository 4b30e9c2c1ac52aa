/** Certified workers on one clock that the test moves, over a relay in memory: hours pass in moments, and no time is a matter of luck. */

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
  /** A line to the relay, on which everything is heard unless said otherwise. */
  connect(hears?: (event: SignedEvent) => boolean): RelaySet;
  start(options: TimedOptions): CertifiedMember;
  /** Everything that was ever sent is gone: the relay was replaced by an empty one. */
  forget(): void;
  /** Takes in an event from anybody. */
  put(event: SignedEvent): void;
  /** Moves time on until it holds, second by second; the seconds that took. Throws when it does not hold in time. */
  secondsUntil(holds: () => boolean, atMost: number): Promise<number>;
  /** Moves time on until all have ended; rejects when one fails, or they do not end in time. */
  finish(members: readonly CertifiedMember[], atMost: number): Promise<number>;
}

/** Workers of this run, whose inner steps take so long. To be called in a test; they stop when it is over. */
export function createTimedSwarm(
  spec: RunSpec,
  trainSeconds: number,
  options: MemoryRelayOptions = {},
): TimedSwarm {
  const clock = createManualClock();
  const relay = createMemoryRelay('ws://memory.test', options);
  async function secondsUntil(holds: () => boolean, atMost: number): Promise<number> {
    for (let seconds = 0; seconds <= atMost; seconds++) {
      // of what this second brings
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
