/** The published model that training starts from: what is trained of it, from where, and what is refused before anything trains. */
import { join } from 'node:path';
import { modelRoot } from 'nostrain/consensus';
import { countParameters, initialParameters, modelLayout, readModelConfig } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { exportTiers, tierFolder } from 'nostrain/node/parts';
import { completeSettings, hashBase, type Precision, presets } from 'nostrain/run';
import { beforeAll, describe, expect, it } from 'vitest';
import { modelOf } from '../../../src/model/from-settings.ts';
import {
  type BaseSettings,
  openBase,
  openBaseOf,
  openFullBaseOf,
  startFrom,
} from '../../../src/node/pretrained/base-model.ts';
import type { Start } from '../../../src/run/spec/start.ts';
import { adamwSpec } from '../../support/ort-models.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { tinyConfig, tinyTokenizer, writeTinyLlama } from '../../support/tiny-llama.ts';

const home = temporaryFolder();
const options = { onNotice: () => undefined, signal: new AbortController().signal };
const usual = completeSettings(presets.pretrained, { model: 'pretrained', run: 'run', relay: [] });
const settings = (asked: Partial<BaseSettings> = {}): BaseSettings => ({
  ...{ base: join(home, 'tiny'), context: 16, rank: 4, alpha: 8, targets: 'qv' },
  ...{ basePrecision: 'f32', seed: 3 },
  ...asked,
});
const open = (asked?: Partial<BaseSettings>) => openBase(settings(asked), options);

describe('a base', () => {
  beforeAll(() => writeTinyLlama(join(home, 'tiny')));

  it('with adapters: they alone are trained, from the seed, and change nothing yet', async () => {
    const base = await open();
    expect(base.files.map(({ name }) => name)).toEqual([
      'config.json',
      'tokenizer.json',
      'model.safetensors',
    ]);
    expect(countParameters(base.model)).toBe(2 * (4 * 32 + 32 * 4 + 4 * 32 + 16 * 4));
    const first = await base.first(3);
    expect(first).toEqual(initialParameters(base.model, 3));
    for (const { name, offset, size } of modelLayout(base.model).slots) {
      const values = first.subarray(offset, offset + size);
      expect(
        values.some((value) => value !== 0),
        name,
      ).toBe(name.includes('lora_A'));
    }
    const frozen = await base.frozen();
    expect(Object.keys(frozen)).toHaveLength(base.pretrained.tensors.size);
  });

  it('in few bits: read one tensor after the other, and adapters learn on it as they do on f32', async () => {
    const losses = async (basePrecision: Precision) => {
      const { model, frozen, first } = await open({ basePrecision });
      const shard = Uint8Array.from({ length: 400 }, (_, i) => 60 + (i % 7));
      const trainer = await createTrainer({
        ...{ model, frozen, batch: 4, device: 'cpu', threads: 1, optimizer: adamwSpec },
        data: { kind: 'tokens', shard, validation: shard },
      });
      const task = { round: 0, firstStep: 0, steps: 10, moments: [], batchKey: [1, 2] } as const;
      const params = await first(3);
      const never = new AbortController().signal;
      const { losses } = await trainer.train({ ...task, params }, () => undefined, never);
      await trainer.close();
      return losses;
    };
    const exact = await losses('f32');
    expect(exact[9]).toBeLessThan(exact[0]! - 0.01);
    for (const [precision, most] of [
      ['f16', 1e-3],
      ['q8', 0.01],
      ['q4', 0.1],
    ] as const) {
      const own = await losses(precision);
      expect(Math.abs(own[0]! - exact[0]!)).toBeLessThan(most);
      expect(Math.abs(own[9]! - exact[9]!)).toBeLessThan(most);
      expect(own).not.toEqual(exact);
    }
  });

  it('with rank 0: all of it is trained, from its own weights', async () => {
    const base = await open({ rank: 0 });
    const { slots } = modelLayout(base.model);
    const first = await base.first(3);
    const norm = slots.find(({ name }) => name === 'model.norm.weight')!;
    expect(first.slice(norm.offset, norm.offset + 2)).toEqual(Float32Array.of(1, 1));
    expect(first.length).toBe(countParameters(base.spec));
    expect(await base.frozen()).toEqual({});
  });

  it('is known by its files and its tokenizer', async () => {
    const same = await writeTinyLlama(join(home, 'same'));
    const one = await open();
    expect(hashBase(await open({ base: same }))).toBe(hashBase(one));
    const other = await writeTinyLlama(join(home, 'other'), {
      change: (values) => {
        values[0] = values[0]! + 1;
      },
    });
    const differs = await open({ base: other });
    expect(hashBase(differs)).not.toBe(hashBase(one));
    expect(differs.tokenizerSha256).toBe(one.tokenizerSha256);
    const tokenizer = tinyTokenizer(['t h']);
    const words = await writeTinyLlama(join(home, 'words'), { tokenizer });
    expect((await open({ base: words })).tokenizerSha256).not.toBe(one.tokenizerSha256);
  });

  it('that cannot be used is refused by name', async () => {
    await expect(open({ base: '' })).rejects.toMatchObject({ code: 'base/missing' });
    await expect(open({ base: join(home, 'none') })).rejects.toMatchObject({ code: 'model/files' });
    await expect(open({ context: 65 })).rejects.toThrow(/65 tokens/);
    await expect(open({ rank: 64 })).rejects.toMatchObject({ code: 'adapter/rank' });
    await expect(open({ targets: 'x_proj' })).rejects.toMatchObject({ code: 'adapter/targets' });
    const short = await writeTinyLlama(join(home, 'short'), {
      file: (bytes) => bytes.subarray(0, bytes.length - 4),
    });
    await expect(open({ base: short })).rejects.toMatchObject({ code: 'model/weights' });
    const merges = ['t h', 'i n', 'e r', 'a n', 'o n'];
    const many = await writeTinyLlama(join(home, 'many'), { tokenizer: tinyTokenizer(merges) });
    await expect(open({ base: many })).rejects.toMatchObject({ code: 'model/tokenizer' });
    const broken = await writeTinyLlama(join(home, 'nan'), {
      change: (values) => {
        values[5] = Number.NaN;
      },
    });
    const frozen = Object.values(await (await open({ base: broken })).frozen());
    const read = Promise.all(frozen.map((one) => (typeof one === 'function' ? one() : one)));
    await expect(read).rejects.toThrow(/NaN at 5/);
    await expect((await open({ base: broken, rank: 0 })).first(1)).rejects.toThrow(/NaN at 5/);
  });
});

describe('the base of a run with tiers', () => {
  const asked = (more: Partial<BaseSettings> = {}) =>
    settings({ tiers: 2, tier: '0', targets: 'all-linear', base: join(home, 'tiny'), ...more });
  const startOf = async (more?: Partial<BaseSettings>) =>
    startFrom(await openBase({ ...asked(more), tiers: 0 }, options), asked(more));
  const bring = async (start: Start, more: Partial<BaseSettings>) =>
    openBaseOf(start, asked(more), options);
  const slot = (tensor: string) => {
    const { slots } = modelLayout(readModelConfig({ ...tinyConfig }, { context: 16 }));
    return slots.find(({ name }) => name === tensor)!;
  };
  /** The last row of a gate matrix is in the outer slice. */
  const changed = (name: string, tensor: string) =>
    writeTinyLlama(join(home, name), {
      change: (values) => {
        const { offset, size } = slot(tensor);
        values[offset + size - 1]! += 1;
      },
    });

  beforeAll(async () => {
    await writeTinyLlama(join(home, 'tiny'));
    await exportTiers(join(home, 'tiny'), [1, 2], options);
  });

  it('is known by its numbers slice by slice, from whichever files they come', async () => {
    const start = await startOf();
    expect(start.files.map(({ name }) => name)).toContain('model.safetensors');
    expect(new Set(start.rings).size).toBe(3);
    expect(start.model).toMatchObject({ ffn: 48 });
    for (const tier of ['0', '1', '2'] as const) {
      for (const tierStrategy of ['auto', 'universal'] as const) {
        const { sliceHashes, model } = await bring(start, { tier, tierStrategy });
        expect(sliceHashes).toEqual(start.rings!.slice(0, 3 - Number(tier)));
        const laidOut = modelOf({ ...usual, tiers: 2, tier, context: 16 }, { start });
        expect(modelLayout(laidOut)).toEqual(modelLayout(model));
      }
    }
    const alone = await bring(start, { base: tierFolder(join(home, 'tiny'), 2) });
    expect(alone.sliceHashes).toEqual(start.rings!.slice(0, 1));
  });

  it('with other numbers in an outer slice is refused by the tiers that have them', async () => {
    const start = await startOf();
    const outer = await changed('outer', 'model.layers.0.mlp.gate_proj.weight');
    await expect(bring(start, { base: outer })).rejects.toThrow(
      expect.objectContaining({
        code: 'base/other',
        message: expect.stringContaining('the weights of tier 0 differ') as string,
      }),
    );
    for (const tier of ['1', '2'] as const) {
      expect((await bring(start, { base: outer, tier })).sliceHashes).toEqual(
        start.rings!.slice(0, 3 - Number(tier)),
      );
    }
    const common = await changed('common', 'model.norm.weight');
    await expect(bring(start, { base: common, tier: '2' })).rejects.toThrow(
      /the weights of tier 2 differ/,
    );
    const tokenizer = tinyTokenizer(['t h']);
    const words = await writeTinyLlama(join(home, 'other-words'), { tokenizer });
    await expect(bring(start, { base: words, tier: '2' })).rejects.toThrow(/tokenizer differs/);
  });

  it('of which all is trained has a root for each slice, of the numbers that workers start from', async () => {
    const start = await startOf({ rank: 0 });
    const base = await bring(start, { rank: 0 });
    const values = await base.first(3);
    const roots = modelLayout(base.model).slices!.map(({ from, to }) =>
      modelRoot({
        params: { layout: { slots: [], size: to - from }, values: values.slice(from, to) },
        momentum: new Float32Array(to - from),
      }),
    );
    expect(start.root).toEqual(roots);
    const part = await (await bring(start, { rank: 0, tier: '1' })).first(3);
    expect(part).toEqual(values.slice(0, part.length));
  });

  it('is the full model where a run is made or recomputed', async () => {
    const start = await startOf();
    const slice = { base: tierFolder(join(home, 'tiny'), 1) };
    await expect(startOf(slice)).rejects.toMatchObject({ code: 'tiers/slice' });
    const full = openFullBaseOf(start, asked(slice), options);
    await expect(full).rejects.toMatchObject({ code: 'tiers/slice' });
  });
});
