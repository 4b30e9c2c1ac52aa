import { ConfigError } from 'nostrain/base';
import {
  initializeLinearRegressionState as linearState,
  initializeMlpRegressionState as mlpState,
} from 'nostrain/python';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import {
  decodeStoredState,
  encodeStoredState,
  inferStateFormat,
  type StoredState,
  torchPayloads,
} from '../../src/formats/stored-state.ts';
import { type JsonState, readVectors, toParams } from '../support/vectors.ts';

interface StateFile {
  readonly name: string;
  readonly filename: string;
  readonly base64: string;
  readonly loaded?: {
    readonly runtime: string | null;
    readonly order: readonly string[];
    readonly state: JsonState;
    readonly digest: string;
  };
}

const vectors = readVectors<{
  path_format_inference: { path: string; format: string }[];
  files: StateFile[];
}>('state-files.json');

const bytesOf = ({ base64 }: StateFile) => new Uint8Array(Buffer.from(base64, 'base64'));
const readable = vectors.files.filter(({ loaded }) => loaded !== undefined);

describe('files of the reference', () => {
  it.each(vectors.path_format_inference)('$path is $format', ({ path, format }) => {
    expect(inferStateFormat(path)).toBe(format);
  });

  it.each(readable)('$name', (file) => {
    const { loaded, filename } = file;
    const state = decodeStoredState(bytesOf(file), filename);
    expect(state.runtime ?? null).toBe(loaded!.runtime);
    expect(state.layout.slots.map(({ name }) => name)).toEqual(loaded!.order);
    expect(state).toMatchObject(toParams(loaded!.state));
    expect(stateDigest(state)).toBe(loaded!.digest);
  });

  it('refuses a layout of an unknown runtime', () => {
    const [file] = vectors.files.filter(({ loaded }) => loaded === undefined);
    const read = () => decodeStoredState(bytesOf(file!), file!.filename);
    expect(read).toThrow(ConfigError);
    expect(read).toThrow('no linear-regression or mlp-regression has tensors named a');
  });
});

const odd: StoredState = {
  layout: createLayout([
    { name: 'a.é\u{1f600}', shape: [] },
    { name: 'b/__proto__', shape: [2, 0, 3] },
    { name: 'c', shape: [5] },
  ]),
  values: Float64Array.of(3.5, -0, 5e-324, Number.MAX_VALUE, 0.1, -1 / 3),
};
const linear: StoredState = { ...linearState(3), runtime: 'linear-regression' };
linear.values.set([0.25, -1, 1e-300, 0]);
const mlp: StoredState = {
  ...mlpState({ features: 3, hiddenSize: 5, seed: 4, weightScale: 1 }),
  runtime: 'mlp-regression',
};
const anyModel = ['s.json', 's.npz', 's.safetensors'];
const regression = [...anyModel, 's.pt.npz', 's.PTH.npz', 's.pt', 's.pth'];

describe('N-19: every format into every other', () => {
  const pairs = (names: readonly string[]) =>
    names.flatMap((from) => names.map((to) => [from, to] as const));

  it.each([
    ['linear', linear, regression],
    ['mlp', mlp, regression],
    ['any other model', odd, anyModel],
  ] as const)('%s', (_, state, names) => {
    const digest = stateDigest(state);
    for (const [from, to] of pairs(names)) {
      for (const torchPayload of torchPayloads) {
        const first = decodeStoredState(encodeStoredState(state, from, { torchPayload }), from);
        const second = decodeStoredState(encodeStoredState(first, to, { torchPayload }), to);
        expect([from, to, stateDigest(second)]).toEqual([from, to, digest]);
        if (from !== 's.json' && to !== 's.json') expect(second.runtime).toBe(state.runtime);
      }
    }
  });

  it('gives the same bytes for the same state', () => {
    for (const name of regression) {
      expect(encodeStoredState(mlp, name)).toEqual(encodeStoredState(mlp, name));
    }
  });

  it('takes the format it is told over that of the name', () => {
    const bytes = encodeStoredState(odd, 'x.json', { format: 'numpy-npz' });
    expect(stateDigest(decodeStoredState(bytes, 'x', { format: 'numpy-npz' }))).toBe(
      stateDigest(odd),
    );
    expect(() => decodeStoredState(bytes, 'x.json')).toThrow('state JSON');
  });

  it('refuses what a format cannot hold', () => {
    expect(() => encodeStoredState(odd, 's.pt')).toThrow('is neither a linear nor an mlp');
    expect(() => encodeStoredState({ ...linear, runtime: 'mlp-regression' }, 's.pt')).toThrow(
      'the state is linear-regression, not mlp-regression',
    );
    expect(() => encodeStoredState({ ...linear, runtime: 'cubic' }, 's.pt')).toThrow(
      'unknown runtime cubic',
    );
    const npz = encodeStoredState(linear, 's.npz');
    expect(() => decodeStoredState(npz, 's.pt.npz')).toThrow('the schema is nostrain-model-state');
  });
});
