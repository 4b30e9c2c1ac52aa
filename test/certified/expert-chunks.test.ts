/** Which chunks a worker of a group of experts sends and trains in a round. */
import { expertRanges, modelOfRun } from 'nostrain/model';
import { CHUNK_LENGTH, chunkCount } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import {
  assignGroups,
  expertParts,
  groupNamed,
  trainedIn,
} from '../../src/certified/decisions/groups.ts';
import type { ChunkAssignment } from '../../src/run/contribution.ts';
import { certifiedSpec } from '../support/certified-run.ts';
import { groupedSpec } from '../support/groups.ts';
import { keyOf } from '../support/members.ts';

// the warm-up is round 0; shared tensors move in rounds 3, 6 and so on. Group `b` has three experts
const spec = groupedSpec([0, 1, 2], {
  mixture: { experts: 4, groups: ['a=0', 'b=1,2,3'], warmupRounds: 1, sharedEvery: 3 },
});
const plain = certifiedSpec();
const parts = expertRanges(modelOfRun(spec));
const chunksOf = (part: number) => {
  const { from, to } = parts[part]!;
  const first = from / CHUNK_LENGTH;
  return Array.from({ length: chunkCount(to) - first }, (_, i) => first + i);
};
const [shared, ...experts] = parts.map((_, part) => chunksOf(part));
const others = experts.slice(1).flat();

const all = {
  digest: 'd',
  moving: Uint8Array.of(9),
  chunksOf: () => Uint32Array.of(9),
  most: 1,
} as never as ChunkAssignment;
const members = [0, 1, undefined].map((group, i) => ({
  key: keyOf(i),
  ...(group !== undefined && { features: { experts: { group } } }),
})) as never;
const inRound = (round: number, of = spec) => assignGroups(all, of, { round, members });

describe('the chunks of a group', () => {
  it('are those of all workers without groups and during the warm-up', () => {
    expect(inRound(0)).toBe(all);
    expect(inRound(5, plain)).toBe(all);
  });

  it('are those of its own experts, each chunk once, and of no other group', () => {
    const { moving, chunksOf: of, most, ...rest } = inRound(1);
    expect(rest).toEqual({ digest: 'd' });
    expect([...moving]).toEqual(experts.flat());
    expect([...of(keyOf(0))]).toEqual(experts[0]);
    expect([...of(keyOf(1))]).toEqual(others);
    expect(most).toBe(others.length);
    expect(others.length).toBeGreaterThan(experts[0]!.length);
  });

  it('contain the shared tensors in the rounds in which those move', () => {
    const { moving, chunksOf: of, most } = inRound(3);
    expect([...moving]).toEqual([...shared!, ...experts.flat()]);
    expect([...of(keyOf(0))]).toEqual([...shared!, ...experts[0]!]);
    expect([...of(keyOf(1))]).toEqual([...shared!, ...others]);
    expect(most).toBe(shared!.length + others.length);
    expect([...inRound(4).chunksOf(keyOf(0))]).toEqual(experts[0]);
  });

  it('are those of its own experts in round 0 without a warm-up', () => {
    const { experts, groups, sharedEvery } = spec.mixture;
    const cold = groupedSpec([0, 1, 2], {
      mixture: { experts, groups, warmupRounds: 0, sharedEvery },
    });
    expect(inRound(0, cold)).toEqual({ ...inRound(1), chunksOf: expect.any(Function) });
    expect([...inRound(2, cold).moving]).toEqual([...inRound(3).moving]);
  });

  it('are none for members without a group and for strangers', () => {
    for (const key of [keyOf(2), keyOf(7)]) expect(inRound(1).chunksOf(key)).toHaveLength(0);
  });

  it('are all that its workers train', () => {
    expect(trainedIn(spec, 0, Uint32Array.of(1))).toBeUndefined();
    expect(trainedIn(plain, 3, Uint32Array.of(1))).toBeUndefined();
    expect(trainedIn(spec, 1, Uint32Array.of(0, 2))).toEqual([
      { from: 0, to: CHUNK_LENGTH },
      { from: 2 * CHUNK_LENGTH, to: 3 * CHUNK_LENGTH },
    ]);
  });
});

describe('the parts of a mixture', () => {
  it('are the shared tensors and each expert, computed once for a spec', () => {
    expect(expertParts(spec)).toEqual(parts);
    expect(expertParts(spec)).toBe(expertParts(spec));
    expect(expertParts(plain)).toBeUndefined();
  });
});

describe('a group', () => {
  it('is found by its name; without groups, by no name', () => {
    expect(groupNamed(spec, 'a')).toBe(0);
    expect(groupNamed(spec, 'b')).toBe(1);
    expect(groupNamed(plain, '')).toBe(-1);
  });

  it.each([
    ['', spec],
    ['c', spec],
    ['a', plain],
  ])('"%s" is refused where there is no such group', (name, of) => {
    expect(() => groupNamed(of, name)).toThrow(expect.objectContaining({ code: 'run/group' }));
  });
});
