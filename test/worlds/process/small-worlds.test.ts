/** Small worlds, each drawn from a seed: runs in which relays, machines, clocks and members fail. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Report } from '../batch.ts';
import { bundle } from '../bundle.ts';
import { drawsOf } from '../draws.ts';
import { playAll } from '../pool.ts';
import { complaintOf } from '../report.ts';
import { drawWorld } from '../world.ts';

/** About 20 seconds on two quiet cores. */
const WORLDS = 100;
/** Of them: played again in another order. */
const REPEATED = 20;
const TIME_LIMIT_MS = 600_000;

const upTo = (last: number): readonly number[] => Array.from({ length: last }, (_, i) => i + 1);

describe('small worlds', () => {
  let program: string;
  const reports: Report[] = [];

  beforeAll(async () => {
    program = await bundle();
    await play(upTo(WORLDS), reports);
  }, TIME_LIMIT_MS);

  async function play(seeds: readonly number[], into: Report[]): Promise<void> {
    const worlds = seeds.map((seed) => drawWorld(seed));
    await playAll(worlds, { jobs: 2, program, onReport: (report) => into.push(report) > 0 });
  }

  it('break no invariant', () => {
    expect(reports.flatMap((report) => complaintOf(report, 'small') ?? [])).toEqual([]);
    expect(reports.length).toBe(WORLDS);
  });

  it(
    'leave the same trace in any order and in any process',
    async () => {
      const draws = drawsOf(0, 'order');
      const order = new Map(upTo(REPEATED).map((seed) => [seed, draws.unit()]));
      const shuffled = [...upTo(REPEATED)].sort((a, b) => order.get(a)! - order.get(b)!);
      const repeated: Report[] = [];
      await play(shuffled, repeated);
      const traces = new Map(reports.map(({ world, traceHash }) => [world.seed, traceHash]));
      const known = repeated.map(({ world }) => traces.get(world.seed));
      expect(repeated.map(({ traceHash }) => traceHash)).toEqual(known);
      expect(new Set(known).size).toBe(REPEATED);
    },
    TIME_LIMIT_MS,
  );
});
