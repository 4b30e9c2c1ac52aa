/** What a plain round starts from, and who may take part. */

import { usualAggregation } from 'nostrain/run';
import { genesis, type WorkerState } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { createAveraging } from '../../src/worker/averaging.ts';
import { fakePorts, layout, ME, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const [B, C] = ['b'.repeat(64), 'c'.repeat(64)];
const sentBy = (...roster: string[]) => ({ roster, event: { id: 'e' } }) as never;

function averaging(more: Parameters<typeof plan>[0] = {}) {
  const ports = fakePorts(createManualClock());
  const session = { plan: plan(more), ports, signal: new AbortController().signal };
  return { ports, strategy: createAveraging(session) };
}
const stateOf = (more: Partial<WorkerState> = {}): WorkerState => ({
  ...genesis({ layout, values: new Float32Array(2) }, 1),
  ...more,
});

describe('a plain round', () => {
  it('divides its chunks among the roster of the gradient that was sealed, else the cohort, else the named peers', async () => {
    const peers = [ME, B, C];
    const startOf = async (more: Partial<WorkerState>, named: readonly string[] = peers) => {
      const { strategy } = averaging({ peers: named, owners: 1 });
      const { start } = await strategy.open(stateOf(more));
      return { roster: start.roster, isDivided: start.assignment.digest !== undefined };
    };
    const sent = sentBy(ME, C);
    expect(await startOf({ sent, cohort: [ME, B] })).toEqual({ roster: [ME, C], isDivided: true });
    expect(await startOf({ cohort: [ME, B] })).toEqual({ roster: [ME, B], isDivided: true });
    expect(await startOf({})).toEqual({ roster: peers, isDivided: true });
    expect(await startOf({}, [])).toEqual({ roster: [], isDivided: false });
  });

  it('keeps what was learned until the round is over only if its rule may leave contributions out', async () => {
    for (const [rule, isKept] of [
      ['clipped-mean', false],
      ['krum', true],
      ['trimmed-mean', true],
    ] as const) {
      // biome-ignore format: one line
      const { strategy } = averaging({ aggregation: { ...usualAggregation, rule } });
      expect((await strategy.open(stateOf())).start.keepsDelta).toBe(isKept);
    }
  });

  it('is refused to a worker that its own peers do not name', () => {
    expect(() => averaging({ peers: [B, C] })).toThrow(expect.objectContaining({ code: 'flag/peers' })); // biome-ignore format: one line
    expect(() => averaging({ peers: [B, ME] })).not.toThrow();
  });

  it('is refused to a latecomer, but not to one that resumes with its gradient sealed', async () => {
    const { ports, strategy } = averaging();
    ports.hear({ worker: B, round: 3 });
    await expect(strategy.prepare(stateOf())).rejects.toMatchObject({ code: 'round/began' });
    for (const resumed of [{ sent: sentBy(ME) }, { round: 1 }]) {
      const state = stateOf(resumed);
      expect(await strategy.prepare(state)).toEqual({ state, isOver: false });
    }
    expect(await strategy.prepare(stateOf({ round: 2 }))).toMatchObject({ isOver: true });
  });
});
