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

it('draws the owners from run, round and base, so that nobody can choose chunks in advance', () => {
  const ownersOf = (more: object) => {
    const { chunksOf } = assignChunks({ ...division, round: 0, owners: 1, fragments: 1, ...more });
    return division.roster.map((worker) => [...chunksOf(worker)]);
  };
  for (const more of [{ base: key('b') }, { round: 1 }, { run: 'other' }]) {
    expect(ownersOf(more)).not.toEqual(ownersOf({}));
  }
});

it('has empty rounds if there are more fragments than chunks', () => {
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

it('lets every worker send all moving chunks if there are no owners', () => {
  const assignment = assignChunks({ ...division, round: 1, owners: 0, fragments: 2 });
  expect(assignment.digest).toBeUndefined();
  expect(assignment.chunksOf(key('f'))).toEqual(assignment.moving);
  expect(mostChunks({ size: division.size, owners: 0, fragments: 2 }, 4)).toBe(6);
});

it('with slices: owners send chunks of the full model, others of their slices, never more than an owner would', () => {
  const ends = [4, 6, 11].map((chunks) => Math.min(chunks * CHUNK, division.size));
  const small = ['5', '6', '7', '8', '9', 'a'].map(key);
  /** The first one has two slices, the others only the first slice, and one newcomer all. */
  const heldBy = (slice: number) => [
    ...(slice === 0 ? small : slice === 1 ? [small[0]!] : []),
    key('b'),
  ];
  const slices = ends.map((to, i) => ({ from: ends[i - 1] ?? 0, to, beside: heldBy(i) }));
  for (let round = 0; round < 20; round++) {
    const usual = { ...division, round, owners: 2, fragments: 1 };
    const { chunksOf, digest, most } = assignChunks({ ...usual, slices });
    const plain = assignChunks(usual);
    expect(digest).toBe(plain.digest);
    for (const worker of division.roster) expect(chunksOf(worker)).toEqual(plain.chunksOf(worker));
    const held = (worker: string) => slices.filter(({ beside }) => beside.includes(worker)).at(-1)!;
    for (const worker of [...small, key('b')]) {
      const own = [...chunksOf(worker)];
      expect(own).toEqual(own.toSorted((a, b) => a - b));
      expect(new Set(own).size).toBe(own.length);
      expect(own.every((chunk) => chunk * CHUNK < held(worker).to)).toBe(true);
      expect(own.length).toBeLessThanOrEqual(most);
    }
    for (const { from, to, beside } of slices) {
      const [first, end] = [Math.floor(from / CHUNK), Math.ceil(to / CHUNK)];
      const sent = beside.flatMap((worker) =>
        [...chunksOf(worker)].filter((chunk) => chunk >= first && chunk < end),
      );
      const all = division.roster.length + beside.length;
      const seats = Math.floor((2 * (end - first) * beside.length) / all);
      expect(sent).toHaveLength(Math.max(1, seats));
    }
  }
});
