import { createNativeSha256 } from 'nostrain/node/parts';
import { parseStateJson } from 'nostrain/python';
import { describe, expect, test } from 'vitest';
import { createLayout, MOST_PARAMETERS, sameLayout, stateDigest } from '../../src/tensor/params.ts';
import { stateText } from '../support/state-text.ts';
import { readVectors, toParams } from '../support/vectors.ts';
import vectors from '../vectors/state-digest.json' with { type: 'json' };

type State = Parameters<typeof toParams>[0];

describe('N-01: state digests agree with the reference', () => {
  test.each(vectors.cases)('$name', ({ order, state, digest }) => {
    expect(stateDigest(toParams(state as State, order))).toBe(digest);
    expect(stateDigest(toParams(state as State, order), createNativeSha256)).toBe(digest);
  });
});

test('a state read from JSON is in code-point order, whatever the file says', () => {
  for (const { state, digest, ...rest } of vectors.cases) {
    const read = 'digest_if_read_from_json' in rest ? rest.digest_if_read_from_json : digest;
    expect(stateDigest(parseStateJson(stateText(state)))).toBe(read);
  }
});

interface Recorded {
  readonly order: readonly string[];
  readonly state: State;
  readonly digest: string;
}

const isRecorded = (value: object): value is Recorded =>
  'order' in value && 'state' in value && 'digest' in value;

/** Every state with its digest anywhere in recorded JSON. */
function recordedIn(value: unknown): readonly Recorded[] {
  if (typeof value !== 'object' || value === null) return [];
  if (isRecorded(value)) return [value];
  return Object.values(value).flatMap(recordedIn);
}

test.each([
  'state-digest',
  'delta',
  'payloads',
  'aggregation',
  'nesterov',
  'runtime',
  'state-files',
])('every state recorded in %s', (file) => {
  const recorded = recordedIn(readVectors(`${file}.json`));
  expect(recorded.length).toBeGreaterThanOrEqual(8);
  for (const { order, state, digest } of recorded) {
    expect(stateDigest(toParams(state, [...order]))).toBe(digest);
  }
});

test('f32 values are hashed as the doubles they are, and -0 is not 0', () => {
  const layout = createLayout([{ name: 'w', shape: [2] }]);
  const digest = (values: Float32Array | Float64Array) => stateDigest({ layout, values });
  const rounded = Math.fround(0.1);
  expect(digest(Float32Array.of(0.1, 1))).toBe(digest(Float64Array.of(rounded, 1)));
  expect(digest(Float32Array.of(0, 1))).not.toBe(digest(Float32Array.of(-0, 1)));
});

test('a value beyond one hashing block still counts', () => {
  const layout = createLayout([{ name: 'w', shape: [20_000] }]);
  const values = new Float32Array(20_000);
  const before = stateDigest({ layout, values });
  values[19_999] = 1;
  expect(stateDigest({ layout, values })).not.toBe(before);
});

test('layouts are the same with the same names and shapes in the same order', () => {
  const tensors = [
    { name: 'a', shape: [2, 3] },
    { name: 'b', shape: [6] },
  ];
  const [a, b] = tensors as [(typeof tensors)[0], (typeof tensors)[0]];
  const layout = createLayout(tensors);
  expect(sameLayout(layout, createLayout([...tensors]))).toBe(true);
  for (const other of [
    [b, a],
    [a],
    [a, { ...b, name: 'c' }],
    [{ ...a, shape: [3, 2] }, b],
    [...tensors, { name: 'c', shape: [0] }],
  ]) {
    // biome-ignore format: one line
    expect(sameLayout(layout, createLayout(other))).toBe(false);
  }
});

test.each([
  ['state/empty', []],
  ['state/name', [{ name: '', shape: [] }]],
  ['state/name', ['a', 'a'].map((name) => ({ name, shape: [] }))],
  ['state/shape', [{ name: 'a', shape: [1.5] }]],
  ['state/shape', [{ name: 'a', shape: [-1] }]],
  ['state/size', [{ name: 'a', shape: [MOST_PARAMETERS] }, { name: 'b', shape: [] }]], // biome-ignore format: one line
])('%s refuses a layout', (code, tensors) => {
  expect(() => createLayout(tensors)).toThrow(expect.objectContaining({ code }));
});
