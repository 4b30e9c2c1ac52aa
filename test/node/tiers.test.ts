/** MatFormer tiers: what is cut, what is refused, and what a worker of a tier loads. */

import { copyFile, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { sha256Hex } from 'nostrain/base';
import { jsonFile, type OutFile, openPretrained } from 'nostrain/formats';
import { modelLayout } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { exportTiers, tierFolder, writeFolder } from 'nostrain/node/parts';
import { encodeSafetensors } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { folderOf } from '../../src/node/pretrained/model-files.ts';
import { findTier } from '../../src/node/pretrained/tier-files.ts';
import { narrowModel, numbersBySlice } from '../../src/pretrained/tiers/cut-tier.ts';
import { MANIFEST, schemaHash } from '../../src/pretrained/tiers/tier.ts';
import { type TierStrategy, tierStrategies } from '../../src/run/spec/model-spec.ts';
import { learn, plainCases } from '../support/learned.ts';
import { readWeights } from '../support/read-weights.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const at = temporaryFolder();
const { signal } = new AbortController();
/** A Llama whose feed-forward layers are 40 wide: tiers 0 to 3 there are. */
const llama = plainCases.find(({ name }) => name === 'llama with biases, linear positions')!;
const BASE = 40;

interface Json {
  [key: string]: unknown;
}
const readJson = async (...path: string[]): Promise<Json> =>
  JSON.parse(await readFile(join(...path), 'utf8'));
const weightsIn = async (folder: string) =>
  readWeights(await openPretrained(folderOf(folder), { context: 8 }));

/** The folder of a full model; in two files of weights where asked. */
async function fullModel({ shards = 1, config = llama.config, name = 'model' } = {}) {
  const folder = at(name);
  const { base, pretrained } = await learn({ ...llama, config });
  if (shards === 1) {
    await writeFolder(folder, base);
    return folder;
  }
  const names = [...pretrained.tensors.keys()];
  const weightMap: Record<string, string> = {};
  const files: OutFile[] = base.filter((file) => !file.name.endsWith('.safetensors'));
  for (let shard = 0; shard < shards; shard++) {
    const file = `model-${shard}-of-${shards}.safetensors`;
    const tensors = [];
    for (const tensor of names.filter((_, i) => i % shards === shard)) {
      weightMap[tensor] = file;
      const { shape, read } = pretrained.tensors.get(tensor)!;
      tensors.push({ name: tensor, shape, values: await read() });
    }
    const bytes = encodeSafetensors({ tensors, metadata: { format: 'pt' } });
    files.push({ name: file, pieces: () => [bytes] });
  }
  files.push(jsonFile('model.safetensors.index.json', { metadata: {}, weight_map: weightMap }));
  await writeFolder(folder, files);
  return folder;
}

/** What a tier of these numbers is. */
function prefixOf(name: string, values: Float32Array, tier: number): Float32Array {
  const width = BASE / 2 ** tier;
  const side = values.length / BASE;
  if (/gate_proj|up_proj/.test(name)) return values.slice(0, width * side);
  if (!/down_proj\.weight/.test(name)) return values;
  return values.filter((_, i) => i % BASE < width);
}

describe('tiers export', () => {
  it('E-01: writes folders beside the model, with their widths, and a manifest with every hash', async () => {
    const folder = await fullModel();
    await exportTiers(folder, [2, 1, 2], { signal });
    for (const tier of [1, 2]) {
      expect(await readJson(tierFolder(folder, tier), 'config.json')).toEqual({
        ...llama.config,
        intermediate_size: BASE / 2 ** tier,
        matformer_tier: tier,
        matformer_base_intermediate_size: BASE,
      });
    }
    const manifest = await readJson(folder, MANIFEST);
    expect(manifest).toMatchObject({
      schema_version: 1,
      matformer_base_intermediate_size: BASE,
      common_files: ['tokenizer.json', 'tokenizer_config.json'],
      tiers: [
        { tier: 0, intermediate_size: 40, files: ['config.json', 'model.safetensors'] },
        {
          tier: 1,
          intermediate_size: 20,
          files: ['../model-tier1/config.json', '../model-tier1/model.safetensors'],
        },
        {
          tier: 2,
          intermediate_size: 10,
          files: ['../model-tier2/config.json', '../model-tier2/model.safetensors'],
        },
      ],
    });
    const hashes = Object.entries(manifest.sha256 as Record<string, string>);
    expect(hashes).toHaveLength(8);
    for (const [path, hash] of hashes) {
      expect(sha256Hex(await readFile(join(folder, path))), path).toBe(hash);
    }
  });

  it('E-01: what does not divide is refused by name and divisor, and a slice is not sliced again', async () => {
    const folder = await fullModel();
    await expect(exportTiers(folder, [1, 4], { signal })).rejects.toMatchObject({
      code: 'tiers/width',
      data: { what: 'intermediate_size', width: 40, divisor: 16 },
    });
    await exportTiers(folder, [1], { signal });
    await expect(exportTiers(tierFolder(folder, 1), [1], { signal })).rejects.toMatchObject({
      code: 'tiers/already-sliced',
      data: { tier: 1, base: 40 },
    });
    await expect(exportTiers(folder, [1], { signal })).rejects.toMatchObject({
      code: 'export/exists',
    });
    const gpt2 = await fullModel({ name: 'other' });
    await writeFile(join(gpt2, 'config.json'), JSON.stringify({ model_type: 'gpt2' }));
    await expect(exportTiers(gpt2, [1], { signal })).rejects.toMatchObject({
      code: 'tiers/config',
    });
  });

  it.each([1, 2])(
    'E-02: tensors are the prefixes of the full model, in %d files',
    async (shards) => {
      const folder = await fullModel({ shards });
      await exportTiers(folder, [1, 2, 3], { signal });
      const full = await weightsIn(folder);
      for (const tier of [1, 2, 3]) {
        const slice = await weightsIn(tierFolder(folder, tier));
        expect([...slice.keys()]).toEqual([...full.keys()]);
        for (const [name, values] of slice) {
          expect(values, name).toEqual(prefixOf(name, full.get(name)!, tier));
        }
      }
      expect((await findTier(folder, { tier: 2, strategy: 'sliced', signal })).slicing).toBe(0);
    },
  );

  it('E-02: cut while it is loaded, a model is the same prefixes, and its slices are its parts in order', async () => {
    const folder = await fullModel();
    const pretrained = await openPretrained(folderOf(folder), { context: 8 });
    const full = await readWeights(pretrained);
    for (const tier of [1, 2]) {
      const narrow = await readWeights(narrowModel(pretrained, tier));
      for (const [name, values] of full) {
        expect(narrow.get(name), name).toEqual(prefixOf(name, values, tier));
      }
    }
    const [gate, down] = ['gate_proj.weight', 'down_proj.weight'].map((end) =>
      [...full.keys()].findIndex((name) => name.endsWith(end)),
    );
    const parts = [new Map<number, Float32Array>(), new Map<number, Float32Array>()];
    let at = -1;
    for await (const { slice, values } of numbersBySlice(pretrained, [10, 30])) {
      if (slice === 0) at++;
      parts[slice]!.set(at, values);
    }
    const [gates, downs] = [gate!, down!].map((index) => [...full.values()][index]!);
    const side = gates!.length / BASE;
    expect(parts[1]!.get(gate!)).toEqual(gates!.slice(10 * side));
    expect(parts[1]!.get(down!)).toEqual(downs!.filter((_, i) => i % BASE >= 10));
    expect(parts[0]!.size).toBe(full.size);
  });

  it('E-02: a slice computes what the full model does with everything but the prefix at zero', async () => {
    const folder = await fullModel();
    await exportTiers(folder, [1], { signal });
    const lossOf = async (
      from: string,
      keeps: (name: string, values: Float32Array) => Float32Array,
    ) => {
      const pretrained = await openPretrained(folderOf(from), { context: 8 });
      const weights = await readWeights(pretrained);
      const layout = modelLayout(pretrained.spec);
      const params = new Float32Array(layout.size);
      for (const { name, offset } of layout.slots)
        params.set(keeps(name, weights.get(name)!), offset);
      const tokens = Uint8Array.from({ length: 200 }, (_, i) => (i * 7 + (i >> 3)) % 36);
      const trainer = await createTrainer({
        model: pretrained.spec,
        optimizer: {
          optimizer: 'sgd',
          schedule: { learningRate: 0.1, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
          clipNorm: 0,
        },
        ...{ batch: 2, device: 'cpu', threads: 1 },
        data: { kind: 'tokens', shard: tokens, validation: tokens },
      });
      const loss = await trainer.evaluate(params, 'validation');
      await trainer.close();
      return loss;
    };
    const masked = (name: string, values: Float32Array) => {
      const side = values.length / BASE;
      if (/gate_proj|up_proj/.test(name))
        return values.map((each, i) => (i < 20 * side ? each : 0));
      return /down_proj\.weight/.test(name)
        ? values.map((each, i) => (i % BASE < 20 ? each : 0))
        : values;
    };
    const sliced = await lossOf(tierFolder(folder, 1), (_, values) => values);
    expect(sliced).toBe(await lossOf(folder, masked));
    expect(sliced).not.toBe(await lossOf(folder, (_, values) => values));
  }, 60_000);
});

describe('a manifest', () => {
  it('E-03: a tier that is not there is named beside those that are; no config and no weights are told apart', async () => {
    const folder = await fullModel();
    await exportTiers(folder, [1], { signal });
    const sliced = { tier: 2, strategy: 'sliced', signal } as const;
    await expect(findTier(folder, sliced)).rejects.toMatchObject({
      code: 'tiers/no-such-tier',
      data: { available: [0, 1] },
    });
    const written = await readJson(folder, MANIFEST);
    const without = async (end: string) => {
      const tiers = (written.tiers as { tier: number; files: string[] }[]).map((each) =>
        each.tier === 1
          ? { ...each, files: each.files.filter((file) => !file.endsWith(end)) }
          : each,
      );
      await writeFile(join(folder, MANIFEST), JSON.stringify({ ...written, tiers }));
      return findTier(folder, { ...sliced, tier: 1 });
    };
    await expect(without('config.json')).rejects.toMatchObject({ code: 'tiers/no-config' });
    await expect(without('.safetensors')).rejects.toMatchObject({ code: 'tiers/no-weights' });
    await rm(join(folder, 'config.json'));
    await expect(findTier(folder, sliced)).rejects.toMatchObject({ code: 'tiers/no-config' });
  });

  it('E-03: a folder that is another tier than the manifest names is refused', async () => {
    const folder = await fullModel();
    await exportTiers(folder, [1, 2], { signal });
    const written = await readJson(folder, MANIFEST);
    const [whole, first, second] = written.tiers as { files: string[] }[];
    const tiers = [whole, { ...first, files: second!.files }, { ...second, files: first!.files }];
    await writeFile(join(folder, MANIFEST), JSON.stringify({ ...written, tiers }));
    for (const tier of [1, 2])
      await expect(findTier(folder, { tier, strategy: 'sliced', signal })).rejects.toMatchObject({
        code: 'tiers/config',
        message: expect.stringContaining(`is tier ${3 - tier} of 40`),
      });
  });

  it('E-03: a link out of the family is not followed', async () => {
    const folder = await fullModel();
    await exportTiers(folder, [1], { signal });
    const file = join(tierFolder(folder, 1), 'model.safetensors');
    await rename(file, at('elsewhere'));
    await symlink(at('elsewhere'), file);
    await expect(findTier(folder, { tier: 1, strategy: 'auto', signal })).rejects.toMatchObject({
      code: 'tiers/InvalidManifestPath',
    });
  });

  it.each(['config.json', 'model.safetensors', 'tokenizer.json'])(
    'E-04: one byte of %s that is another is refused with both hashes',
    async (name) => {
      const folder = await fullModel();
      await exportTiers(folder, [1], { signal });
      const file = join(name === 'tokenizer.json' ? folder : tierFolder(folder, 1), name);
      const bytes = await readFile(file);
      const expected = sha256Hex(bytes);
      bytes[bytes.length >> 1]! ^= 1;
      await writeFile(file, bytes);
      for (const strategy of ['auto', 'sliced'] as const) {
        await expect(findTier(folder, { tier: 1, strategy, signal })).rejects.toMatchObject({
          code: 'tiers/altered',
          message: expect.stringContaining(name),
          data: { expected, actual: sha256Hex(bytes) },
        });
      }
    },
  );

  it.each(['model.safetensors', 'tokenizer.json'])(
    'E-04: so is one byte of %s of the full model, whichever tier is cut out of it',
    async (name) => {
      const folder = await fullModel();
      await exportTiers(folder, [1], { signal });
      const bytes = await readFile(join(folder, name));
      bytes[bytes.length >> 1]! ^= 1;
      await writeFile(join(folder, name), bytes);
      await rm(join(tierFolder(folder, 1), 'model.safetensors'));
      for (const [tier, strategy] of [
        [0, 'auto'],
        [0, 'sliced'],
        [1, 'universal'],
        [1, 'auto'],
      ] as const) {
        // biome-ignore format: one line
        await expect(findTier(folder, { tier, strategy, signal })).rejects.toMatchObject({
          code: 'tiers/altered',
          message: expect.stringContaining(name),
        });
      }
    },
  );
});

describe('what a worker of a tier loads', () => {
  const layouts = ['complete', 'incomplete', 'alone', 'slice'] as const;
  type Layout = (typeof layouts)[number];

  async function laidOut(layout: Layout): Promise<string> {
    const folder = await fullModel();
    if (layout === 'alone') return folder;
    await exportTiers(folder, [1, 2], { signal });
    if (layout === 'slice') return tierFolder(folder, 1);
    if (layout === 'incomplete') {
      for (const tier of [1, 2]) await rm(join(tierFolder(folder, tier), 'model.safetensors'));
    }
    return folder;
  }

  /** Folder and slicing, or the code of the refusal. */
  function expectedOf(layout: Layout, strategy: TierStrategy, tier: number): string {
    if (layout === 'slice') {
      return strategy === 'universal' && tier > 0 ? 'tiers/DoubleSlicing' : 'model-tier1 0';
    }
    if (tier === 0 || strategy === 'universal') return `model ${tier}`;
    if (layout === 'complete') return `model-tier${tier} 0`;
    return strategy === 'sliced' ? 'tiers/missing-file' : `model ${tier} told`;
  }

  it.each(layouts)('E-05: by strategy and tier, of a model that is %s', async (layout) => {
    const folder = await laidOut(layout);
    for (const strategy of tierStrategies) {
      for (const tier of [0, 1, 2]) {
        const found = await findTier(folder, { tier, strategy, signal }).then(
          (load) => {
            const told = load.notice !== undefined && layout !== 'slice' ? ' told' : '';
            return `${basename(load.folder)} ${load.slicing}${told}`;
          },
          (error: { code: string; message: string; data: { path: string } }) => {
            if (layout === 'incomplete') {
              expect(error.message).toContain(error.data.path);
              expect(error.data.path).toContain(`model-tier${tier}/model.safetensors`);
            }
            return error.code;
          },
        );
        expect([strategy, tier, found]).toEqual([
          strategy,
          tier,
          expectedOf(layout, strategy, tier),
        ]);
      }
    }
  });

  it('E-06: says which tier a folder is of, and which was asked for, where both would be cut', async () => {
    const folder = await laidOut('slice');
    await expect(
      findTier(folder, { tier: 2, strategy: 'universal', signal }),
    ).rejects.toMatchObject({
      code: 'tiers/DoubleSlicing',
      data: { checkpoint_tier: 1, requested: 2 },
      hint: expect.stringContaining('full model'),
    });
  });

  it('E-07: the schema is the same for all tiers, and another for other sizes or other tensors', async () => {
    const folder = await laidOut('complete');
    const schemas = [];
    for (const tier of [0, 1, 2]) {
      schemas.push((await findTier(folder, { tier, strategy: 'auto', signal })).schema);
    }
    expect(new Set(schemas).size).toBe(1);
    const names = ['a', 'b'];
    const usual = schemaHash(llama.config, names, 'it');
    for (const more of [
      { hidden_size: 48 },
      { num_attention_heads: 12 },
      { vocab_size: 38 },
      { intermediate_size: 80 },
    ]) {
      expect(schemaHash({ ...llama.config, ...more }, names, 'it')).not.toBe(usual);
    }
    expect(schemaHash(llama.config, ['a', 'c'], 'it')).not.toBe(usual);
    expect(schemaHash({ ...llama.config, torch_dtype: 'float16' }, ['b', 'a'], 'it')).toBe(usual);
  });

  it('E-07: a slice of another model in the place of a tier is refused', async () => {
    const folder = await laidOut('complete');
    const other = await fullModel({
      name: 'other',
      config: { ...llama.config, rms_norm_eps: 0.5 },
    });
    await exportTiers(other, [1], { signal });
    const written = await readJson(folder, MANIFEST);
    const sha256 = { ...(written.sha256 as Record<string, string>) };
    await mkdir(tierFolder(folder, 1), { recursive: true });
    for (const name of ['config.json', 'model.safetensors']) {
      const file = join(tierFolder(folder, 1), name);
      await copyFile(join(tierFolder(other, 1), name), file);
      sha256[`../model-tier1/${name}`] = sha256Hex(await readFile(file));
    }
    await writeFile(join(folder, MANIFEST), JSON.stringify({ ...written, sha256 }));
    await expect(findTier(folder, { tier: 1, strategy: 'auto', signal })).rejects.toMatchObject({
      code: 'tiers/SchemaMismatch',
    });
  });
});
