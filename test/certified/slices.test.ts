/** The slices of a run with tiers: which a worker has, their roots, and how they are transferred. */

import { ConfigError } from 'nostrain/base';
import { modelRoot } from 'nostrain/consensus';
import { describe, expect, it } from 'vitest';
import {
  firstRoots,
  localSliceRoots,
  payloadsOf,
  readSlices,
  rootsAfter,
  rootsOfSlices,
  sliceCountOf,
  sliceStates,
  tierOf,
} from '../../src/certified/decisions/slices.ts';
import { stateBytes } from '../../src/consensus/roots.ts';
import { fullSize, localSlices } from '../../src/tensor/params.ts';
import { tieredBaseSpec, tieredSpec, tierOfModel } from '../support/tiers.ts';

const spec = tieredSpec([0, 1]);
const { slices = [], size } = tierOfModel(spec, 0).layout;

/** The state of a worker of a tier; every parameter and momentum has a value of its own. */
function modelOf(tier: number, shift = 0) {
  const { layout } = tierOfModel(spec, tier);
  const values = Float32Array.from({ length: layout.size }, (_, i) => i + shift);
  return { params: { layout, values }, momentum: values.map((value) => -value) };
}

describe('slices', () => {
  it('are those of the tier; another size is refused', () => {
    const tiers = [0, 1, 2].map((tier) => tierOfModel(spec, tier).layout);
    expect(tiers.map((layout) => localSlices(layout))).toEqual([
      slices,
      slices.slice(0, 2),
      slices.slice(0, 1),
    ]);
    expect(tiers.map((layout) => tierOf(spec, layout))).toEqual([0, 1, 2]);
    expect(tiers.map(fullSize)).toEqual([size, size, size]);
    expect([0, 1, 2].map((tier) => sliceCountOf(spec, tier))).toEqual([3, 2, 1]);
    expect(() => tierOf(spec, { slices, size: size - 1 })).toThrow(ConfigError);
  });

  it('have roots that every worker with them computes alike, in round 0 also of those it lacks', () => {
    const [full, , small] = [0, 1, 2].map((tier) => {
      const { layout, first } = tierOfModel(spec, tier);
      return firstRoots(spec, { layout, values: first });
    });
    expect(full!.sliceRoots).toHaveLength(3);
    expect(small).toEqual(full);
    expect(full!.modelRoot).toBe(rootsOfSlices(full!.sliceRoots!).modelRoot);
    expect(localSliceRoots({ ...full!, params: modelOf(1).params })).toEqual(full!.sliceRoots!.slice(0, 2)); // biome-ignore format: one line
  });

  it('that a base declares are taken from the spec', () => {
    const root = ['1', '2', '3'].map((digit) => digit.repeat(64));
    const adapted = tieredBaseSpec([0, 1], 'all-linear');
    const based = { ...adapted, start: { ...adapted.start!, root } };
    const { layout, first } = tierOfModel(based, 2);
    const { sliceRoots } = firstRoots(based, { layout, values: first });
    expect(sliceRoots!.slice(1)).toEqual(root.slice(1));
  });

  it('that moved are hashed, others keep their root or get that of the outcome', () => {
    const before = rootsOfSlices(['a', 'b', 'c'].map((digit) => digit.repeat(64)));
    const outer = ['d', 'e', 'f'].map((digit) => digit.repeat(64));
    const model = modelOf(1);
    const [first, second] = sliceStates(model).map((slice) => modelRoot(slice));
    const rootsIf = (movesFirst: boolean, more = {}) =>
      rootsAfter(model, { before, moved: ({ from }) => from > 0 || movesFirst, ...more });
    expect(rootsIf(true).sliceRoots).toEqual([first, second, before.sliceRoots![2]]);
    expect(rootsIf(false, { outer })).toEqual(rootsOfSlices([before.sliceRoots![0]!, second!, outer[2]!])); // biome-ignore format: one line
  });

  it('are transferred one by one and join to the same state', () => {
    const model = modelOf(1);
    const { layout } = model.params;
    const states = sliceStates(model);
    expect(states.map(({ params }) => [params.values[0], params.layout.size])).toEqual(
      slices.slice(0, 2).map(({ from, to }) => [from, to - from]),
    );
    const roots = rootsOfSlices(['a', 'b', 'c'].map((digit) => digit.repeat(64)));
    expect(payloadsOf(roots, layout)).toEqual(
      states.map(({ params }, i) => ({
        root: roots.sliceRoots![i],
        bytes: 8 * params.layout.size,
      })),
    );
    const joined = readSlices(states.map((state) => stateBytes(state)), layout); // biome-ignore format: one line
    expect(joined).toEqual(model);
  });
});
