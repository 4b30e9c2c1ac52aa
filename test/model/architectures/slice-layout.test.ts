/** Where the tensors of a tier are: widths of slices, their parts in the vector, and the padding between them. */
import fc from 'fast-check';
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import type { Model } from '../../../src/model/architectures/architecture.ts';
import {
  joinSlices,
  rangeAlong,
  sliceIndexOf,
  sliceModel,
  sliceTensor,
  sliceWidths,
  tierWith,
  widthIn,
} from '../../../src/model/architectures/slices.ts';

const FFN = 48;

test.each([
  [{ count: 2, tier: 0 }, [12, 12, 24]],
  [{ count: 2, tier: 1 }, [12, 12]],
  [{ count: 2, tier: 2 }, [12]],
  [{ count: 3, tier: 0 }, [6, 6, 12, 24]],
  [{ count: 2, tier: 0, even: true }, [12, 12, 12, 12]],
  [{ count: 2, tier: 1, even: true }, [12, 12]],
  [{ count: 2, tier: 1, even: true, helps: true }, [12, 12, 12]],
])('of a feed-forward layer 48 wide %j has slices %j wide', (tiers, widths) => {
  expect(sliceWidths(FFN, tiers)).toEqual(widths);
  expect(widthIn(FFN, tiers)).toBe(widths.reduce((sum, width) => sum + width));
  if (!('helps' in tiers)) expect(tierWith(tiers, widths.length)).toBe(tiers.tier);
});

test('a number of slices belongs to the largest tier that they make', () => {
  const tiers = { count: 2, even: true };
  expect([1, 2, 3, 4, 5, 8].map((slices) => tierWith(tiers, slices))).toEqual([2, 1, 1, 0, 0, 0]);
  expect([1, 2, 3, 4].map((slices) => tierWith({ count: 2 }, slices))).toEqual([2, 1, 0, 0]);
});

describe('the tensors of a sliced model', () => {
  const start = 'ones' as const;
  const fake = (tensors: Model['tensors'], frozen?: Model['frozen']): Model => ({
    tensors,
    ...(frozen && { frozen }),
    predict: (weights) => weights('any'),
    losses: (weights) => weights('any'),
  });
  const layoutOf = (model: Model) =>
    model.tensors.map(({ name, shape, slice = 0 }) => `${name} ${shape.join('x')} in ${slice}`);
  const whole = { count: 2, tier: 0 };

  test('are their parts in each slice, then zeros up to whole chunks in all but the last', () => {
    const model = fake([
      { name: 'a', shape: [10], start },
      { name: 'w', shape: [3, FFN], inner: 1, start },
    ]);
    expect(layoutOf(sliceModel(model, whole, FFN))).toEqual([
      ...['a 10 in 0', 'w 3x12 in 0', `padding.ring0 ${CHUNK_LENGTH - 46} in 0`],
      ...['w.ring1 3x12 in 1', `padding.ring1 ${CHUNK_LENGTH - 36} in 1`],
      'w.ring2 3x24 in 2',
    ]);
    const even = layoutOf(sliceModel(model, { ...whole, even: true }, FFN));
    expect(even.filter((each) => each.startsWith('padding'))).toHaveLength(3);
    expect(even.at(-1)).toBe('w.ring3 3x12 in 3');
    const tier = sliceModel(model, { count: 2, tier: 1 }, FFN);
    expect(layoutOf(tier)).toEqual(layoutOf(sliceModel(model, whole, FFN)).slice(0, 5));
    expect(tier.tensors.at(-1)).toMatchObject({ start: 'zeros' });
    expect(tier).not.toHaveProperty('frozen');
    expect(['w', 'w.ring2', 'padding.ring1'].map(sliceIndexOf)).toEqual([0, 2, 1]);
  });

  test('need no padding if they are whole chunks', () => {
    const model = fake([{ name: 'a', shape: [2, CHUNK_LENGTH], start }]);
    expect(layoutOf(sliceModel(model, { count: 1, tier: 1 }, FFN))).toEqual([
      `a 2x${CHUNK_LENGTH} in 0`,
    ]);
  });

  test('are one chunk in a slice that has none of them, also in the last one', () => {
    const frozen = [
      { name: 'f', shape: [FFN, 2], inner: 0 },
      { name: 'g', shape: [5] },
    ];
    const model = sliceModel(
      fake([{ name: 'a', shape: [CHUNK_LENGTH], start }], frozen),
      whole,
      FFN,
    );
    expect(layoutOf(model)).toEqual([
      `a ${CHUNK_LENGTH} in 0`,
      ...[1, 2].map((slice) => `padding.ring${slice} ${CHUNK_LENGTH} in ${slice}`),
    ]);
    expect(model.frozen).toMatchObject([
      ...[
        { name: 'f', shape: [12, 2] },
        { name: 'g', shape: [5] },
      ],
      ...[
        { name: 'f.ring1', shape: [12, 2] },
        { name: 'f.ring2', shape: [24, 2] },
      ],
    ]);
  });
});

describe('the values of a tensor', () => {
  const shapes = fc
    .array(fc.integer({ min: 1, max: 4 }), { maxLength: 3 })
    .chain((others) => fc.tuple(fc.constant(others), fc.integer({ min: 0, max: others.length })));
  const tiers = fc.record({ count: fc.integer({ min: 1, max: 3 }), even: fc.boolean() });
  const sized = (shape: readonly number[]) =>
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i);

  test('along an axis are cut out of each run', () => {
    const tensor = { shape: [2, 3, 2], inner: 1 };
    expect([...rangeAlong(tensor, sized(tensor.shape), { from: 1, to: 3 })]).toEqual([
      ...[2, 3, 4, 5],
      ...[8, 9, 10, 11],
    ]);
    expect([...rangeAlong({ shape: [3] }, sized([3]), { from: 1, to: 2 })]).toEqual([0, 1, 2]);
  });

  test('are the same cut into slices and joined again, and the first slices are a smaller tier', () => {
    fc.assert(
      fc.property(shapes, tiers, ([others, inner], { count, even }) => {
        const shape = others.toSpliced(inner, 0, FFN);
        const tensor = { name: 'w', shape, inner };
        const values = sized(shape);
        const all = { count, tier: 0, even };
        const parts = sliceTensor(tensor, values, all, FFN);
        expect([...parts.keys()][0]).toBe('w');
        expect(joinSlices(tensor, (name) => parts.get(name))).toEqual(values);
        for (let tier = 1; tier <= count; tier++) {
          const few = new Map([...parts].slice(0, sliceWidths(FFN, { ...all, tier }).length));
          const width = widthIn(FFN, { ...all, tier });
          expect(joinSlices(tensor, (name) => few.get(name))).toEqual(
            rangeAlong(tensor, values, { from: 0, to: width }),
          );
        }
        expect(joinSlices(tensor, () => undefined)).toBeUndefined();
      }),
    );
    const plain = { name: 'a', shape: [4] };
    expect(sliceTensor(plain, sized([4]), { count: 2, tier: 0 }, FFN)).toEqual(
      new Map([['a', sized([4])]]),
    );
    expect(joinSlices(plain, () => sized([4]))).toEqual(sized([4]));
  });
});
