/** 10,000 small worlds in two processes, a thousand a test. */
import { beforeAll, expect, it } from 'vitest';
import { bundle } from '../worlds/bundle.ts';
import { playAll } from '../worlds/pool.ts';
import { complaintOf } from '../worlds/report.ts';
import { drawWorld } from '../worlds/world.ts';

let program: string;

beforeAll(async () => {
  program = await bundle();
});

it.each([1, 1001, 2001, 3001, 4001, 5001, 6001, 7001, 8001, 9001])(
  'a thousand from world %i on break no invariant',
  async (first) => {
    const worlds = Array.from({ length: 1000 }, (_, i) => drawWorld(first + i));
    const complaints: string[] = [];
    await playAll(worlds, {
      ...{ jobs: 2, program },
      onReport(report) {
        const complaint = complaintOf(report, 'small');
        if (complaint !== undefined) complaints.push(complaint);
        return true;
      },
    });
    expect(complaints).toEqual([]);
  },
);
