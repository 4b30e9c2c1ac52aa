/** Workers that join a round late, and what a round teaches about arrival times. */

import type { Outcome } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { Attendance } from '../../src/certified/rounds/attendance.ts';
import { ArrivalTimes } from '../../src/certified/rounds/journal.ts';
import { friends, Player } from '../consensus/round/test-network.ts';
import { certifiedSpec } from '../support/certified-run.ts';

describe('a worker that voted while still training', () => {
  const ports = { spec: certifiedSpec({ late: 'defer' }) };
  const isThereAfter = (isLate: boolean): boolean => {
    const attendance = new Attendance(ports as ConstructorParameters<typeof Attendance>[0]);
    const outcome = { result: 'final' } as Outcome;
    attendance.note({ isOver: false, isLate, hasCommitted: true }, outcome);
    return attendance.isThere;
  };

  it('begins the next round later than the others', () => {
    expect(isThereAfter(true)).toBe(false);
    expect(isThereAfter(false)).toBe(true);
  });
});

describe('arrival times that a slow worker learns from its first round', () => {
  const here: readonly (readonly [string, number])[] = [
    ['w0', 2000],
    ['w1', 3000],
    ['w2', 4000],
    ['w3', 10_000],
  ];
  const begun = 1_000_000;

  function learned(round: number, heard = here) {
    const me = new Player(friends(4), 'w3');
    const context = { ...me.context, round };
    let delays: readonly number[] = [];
    const arrivals = new ArrivalTimes({
      ...{ context, isResumed: false, beginning: { begun, back: begun } },
      delays: { recent: [], learn: (more) => (delays = more) },
    });
    const machine = { ...me.state, begun, back: null };
    const last = begun + 100_000;
    const signed = (delay: number) => ({
      ...{ type: 'manifest', id: '', key: '' },
      manifest: { createdAt: (begun + delay) / 1000 - 1 },
    });
    for (const [worker, delay] of heard) {
      const message = signed(delay) as Parameters<ArrivalTimes['note']>[1];
      arrivals.note(worker, message, machine, begun + delay);
    }
    const closed = { at: last, empty: false };
    arrivals.teach({ ...machine, closed, decided: {} as never });
    return delays;
  }

  it('are those it observed, if all began the run together', () => {
    expect(learned(0)).toEqual([2000, 3000, 4000, 10_000]);
  });

  it('are empty if the round was decided without it', () => {
    expect(learned(0, here.slice(0, 3))).toEqual([]);
  });

  it('are those that a typical worker would observe, if it may have begun later', () => {
    expect(learned(1)).toEqual([9000, 10_000, 11_000, 17_000]);
  });
});
