import { expect, it } from 'vitest';
import { assignChunks, mostChunks } from '../../src/worker/chunk-assignment.ts';

const CHUNK = 4096;
const key = (digit: string): string => digit.repeat(64);
const division = {
  run: 'test',
  base: key('a'),
  roster: ['1', '2', '3', '4'].map(key),
  size: 10 * CHUNK + 7,
};

it('moves every chunk once in as many rounds as there are fragments', () => {
  for (const fragments of [1, 3, 4, 11]) {
    const seen = Array.from({ length: fragments }, (_, round) => [
      ...assignChunks({ ...division, round, owners: 0, fragments }).moving,
    ]);
    expect(seen.flat()).toEqual(Array.from({ length: 11 }, (_, chunk) => chunk));
    const again = assignChunks({ ...division, round: fragments, owners: 0, fragments });
    expect([...again.moving]).toEqual(seen[0]);
  }
});

it('has empty rounds where there are more fragments than chunks', () => {
  const lengths = Array.from(
    { length: 22 },
    (_, round) => assignChunks({ ...division, round, owners: 0, fragments: 22 }).moving.length,
  );
  expect(lengths.reduce((sum, length) => sum + length)).toBe(11);
});

it('gives the chunks that move in a round to their owners, and no others', () => {
  const assignment = assignChunks({ ...division, round: 2, owners: 2, fragments: 3 });
  const owned = division.roster.flatMap((worker) => [...assignment.chunksOf(worker)]);
  expect(owned.toSorted((a, b) => a - b)).toEqual(
    [...assignment.moving].flatMap((chunk) => [chunk, chunk]),
  );
  expect(
    Math.max(...division.roster.map((w) => assignment.chunksOf(w).length)),
  ).toBeLessThanOrEqual(assignment.most);
});

it('lets every worker send all that moves where there are no owners', () => {
  const assignment = assignChunks({ ...division, round: 1, owners: 0, fragments: 2 });
  expect(assignment.digest).toBeUndefined();
  expect(assignment.chunksOf(key('f'))).toEqual(assignment.moving);
  expect(mostChunks({ size: division.size, owners: 0, fragments: 2 }, 4)).toBe(6);
});
