/** Models from ONNX files in certified runs: what the spec says of them, and which files are refused. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeSpec } from 'nostrain/certified';
import { genesisOf, startOf } from 'nostrain/certified/parts';
import { completeSettings, presets, type RunSpec, readSpec } from 'nostrain/run';
import { beforeAll, describe, expect, it, test } from 'vitest';
import { layoutOfRun } from '../../../src/model/from-settings.ts';
import {
  openImportedTask,
  packForRun,
  startOfSettings,
} from '../../../src/node/pretrained/imported-file.ts';
import { canonicalSpec } from '../../../src/run/spec/run-spec.ts';
import { linearOnnx } from '../../support/imported.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const home = temporaryFolder();
const base = join(home, 'line.onnx');
const options = { onNotice: () => undefined, signal: new AbortController().signal };
const settings = completeSettings(presets['onnx-rows'], {
  model: 'onnx-rows',
  base,
  run: 'run',
  relay: [],
});

describe('a run that trains an ONNX file', () => {
  let spec: RunSpec;
  beforeAll(async () => {
    process.env.NOSTRAIN_HOME = home;
    await writeFile(base, linearOnnx(0.25));
    const made = await makeSpec({
      training: { model: 'onnx-rows', base, rounds: 2 },
      me: signerOf(1).publicKey,
      start: (each) => startOfSettings(each, options),
    });
    spec = readSpec(JSON.parse(canonicalSpec(made.spec)));
  });

  it('names the hashes of its graph and weights, its parameters, and the root that they begin with', async () => {
    const { start } = spec;
    expect(start!.files.map(({ name }) => name)).toEqual(['graph.json', 'weights.bin']);
    expect(start!.files[1]!.bytes).toBe(16);
    expect(layoutOfRun(spec).slots.map(({ name }) => name)).toEqual(['layer.bias', 'layer.weight']);
    const task = await openImportedTask({ ...settings, base }, start);
    const first = await task.first(0);
    expect([...first]).toEqual([0.5, 0.25, Math.fround(0.1), 0]);
    expect(genesisOf(spec, startOf(spec, first)).modelRoot).toBe(start!.root);
  });

  it('is trained from the files that joiners download as from the original', async () => {
    const chunks = await packForRun(settings, options.signal);
    const folder = join(chunks[0]!, '..');
    const task = await openImportedTask({ ...settings, base: folder }, spec.start);
    expect(task.files).toEqual(spec.start!.files);
    expect([...(await task.first(0))]).toEqual([0.5, 0.25, Math.fround(0.1), 0]);
  });

  it('refuses another model in one sentence', async () => {
    const other = join(home, 'other.onnx');
    await writeFile(other, linearOnnx(0.3));
    await expect(openImportedTask({ ...settings, base: other }, spec.start)).rejects.toMatchObject({
      code: 'base/other',
      message: expect.stringContaining('weights.bin differs'),
    });
  });

  it('refuses a spec with other parameters than the graph has', async () => {
    const { model, ...rest } = spec.start!;
    const tensors = [{ name: 'layer.bias', shape: [1] }];
    const start = { ...rest, model: { ...model, tensors } } as typeof spec.start;
    await expect(openImportedTask(settings, start)).rejects.toMatchObject({ code: 'base/other' });
  });

  test.each([
    ['weights that are too short', 'weights.bin', () => Buffer.alloc(12)],
    [
      'weights that are not finite',
      'weights.bin',
      () => Buffer.from(Float32Array.of(1, 2, 3, Number.NaN).buffer),
    ],
    ['a graph that is no JSON', 'graph.json', () => Buffer.from('{')],
    [
      'a tensor of 2^40 elements',
      'graph.json',
      (graph: string) => Buffer.from(graph.replace('"shape":[1,3]', '"shape":[1099511627776]')),
    ],
    [
      'an unknown operator',
      'graph.json',
      (graph: string) => Buffer.from(graph.replace('Gemm', 'Loop')),
    ],
  ])('refuses a download with %s', async (_, name, change) => {
    const [chunks] = await packForRun(settings, options.signal);
    const broken = join(home, `broken-${Math.random()}`);
    await mkdir(broken);
    for (const each of ['graph.json', 'weights.bin']) {
      const bytes = await readFile(join(chunks!, '..', each));
      await writeFile(join(broken, each), each === name ? change(bytes.toString()) : bytes);
    }
    await expect(openImportedTask({ ...settings, base: broken })).rejects.toMatchObject({
      code: expect.stringMatching(/^onnx\//),
    });
  });

  test.each([
    ['no tensors', { tensors: [] }],
    ['a tensor of 2^40 elements', { tensors: [{ name: 'a', shape: [2 ** 40] }] }],
    [
      'tensors of 2^40 elements together',
      { tensors: ['a', 'b'].map((name) => ({ name, shape: [2 ** 20, 2 ** 20] })) },
    ],
    ['one name twice', { tensors: ['a', 'a'].map((name) => ({ name, shape: [1] })) }],
    ['data of another form', { data: { kind: 'tokens', vocabulary: 2, context: 2 } }],
    ['another architecture', { architecture: 'onyx' }],
  ])('refuses a spec with %s', (_, change) => {
    const document = JSON.parse(canonicalSpec(spec));
    Object.assign(document.start.model, change);
    expect(() => readSpec(document)).toThrow(/start\.model|training\.model/);
  });

  it('is refused with adapters, and where rows have classes', () => {
    const document = JSON.parse(canonicalSpec(spec));
    const adapter = { ...document.start.adapter, rank: 4 };
    const start = { ...document.start, adapter, root: null };
    expect(() => readSpec({ ...document, start })).toThrow(/start\.adapter\.rank/);
    const training = { ...document.training, model: 'onnx-classes' };
    expect(() => readSpec({ ...document, training })).toThrow(/onnx-classes/);
  });
});
