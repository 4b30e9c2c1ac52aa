/** What a worker says of the machine its bits come from, and what a witness makes of it. */
import { expect, it } from 'vitest';
import { computingOf, machineBuild } from '../../../src/node/engine/onnxruntime.ts';

it('is one line of ASCII that says the settings, and reads back', () => {
  const usual = {
    device: 'cpu',
    threads: 2,
    accumulate: 1,
    recompute: false,
    precision: 'f32',
  } as const;
  expect(machineBuild(usual)).toMatch(/^onnxruntime-node-\d+\.\d+\.\d+ \w+-\w+-\w+ cpu threads-2$/);
  const other = {
    ...usual,
    threads: 1,
    accumulate: 4,
    recompute: true,
    precision: 'bf16',
  } as const;
  const build = machineBuild(other);
  expect(build).toMatch(/ cpu threads-1 bf16 accumulate-4 recompute$/);
  expect(build.length).toBeLessThanOrEqual(128);
  expect(computingOf(build)).toEqual({ threads: 1, accumulate: 4, recompute: true });
});

it('of what says nothing of the kind, the usual settings', () => {
  const usual = { threads: 1, accumulate: 1, recompute: false };
  for (const text of ['', 'unknown', 'threads-0', 'x threads-99999', 'x threads-2x']) {
    expect(computingOf(text)).toEqual(usual);
  }
});
