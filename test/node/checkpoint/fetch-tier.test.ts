/** A joiner with a small machine gets the part of a state that its tier has, and little more. */
import { readFile, writeFile } from 'node:fs/promises';
import { modelLayout } from 'nostrain/model';
import type { ChunkSource } from 'nostrain/network';
import { createFolderSource, packFile } from 'nostrain/node/parts';
import type { GptSpec } from 'nostrain/run';
import { decodeSafetensors, encodeSafetensors } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { fetchTier } from '../../../src/node/checkpoint/fetch-tier.ts';
import { STATE_TENSOR_PREFIX } from '../../../src/worker/state-file.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const at = temporaryFolder();
const signal = new AbortController().signal;
const spec: GptSpec = {
  ...{ architecture: 'gpt', vocabulary: 256, width: 128, layers: 1, heads: 4, context: 64 },
  ffn: 2048,
};
const ofTier = (own: number): GptSpec => ({ ...spec, tiers: { count: 2, tier: own } });

async function packed(model: GptSpec) {
  const layout = modelLayout(model);
  const values = Float32Array.from({ length: layout.size }, (_, i) => i % 1009);
  const tensors = layout.slots.map(({ name, shape, offset, size }) => ({
    ...{ name, shape },
    values: values.subarray(offset, offset + size),
  }));
  const momentum = {
    name: `${STATE_TENSOR_PREFIX}momentum`,
    shape: [1000],
    values: new Float32Array(1000),
  };
  await writeFile(
    at('state'),
    encodeSafetensors({ tensors: [...tensors, momentum], metadata: {} }),
  );
  const manifest = await packFile(at('state'), at('packed'), {
    chunkBytes: 2 ** 14,
    erasure: null,
  });
  const source: ChunkSource = createFolderSource(at('packed'));
  return { manifest, sources: [source], values };
}

describe('a tier out of a chunked state', () => {
  it.each([1, 2])(
    'E-10: tier %d comes in at most 1.02 times its bytes, and holds exactly its tensors',
    async (tier) => {
      const { manifest, sources, values } = await packed(ofTier(0));
      const out = at(`tier-${tier}`);
      const file = at(`tier-${tier}.safetensors`);
      const { bytes } = await fetchTier(manifest, out, { tier, file }, { sources, signal });
      const { slots, size } = modelLayout(ofTier(tier));
      expect(bytes).toBeLessThanOrEqual(1.02 * 4 * size);
      expect(bytes).toBeLessThan(0.8 * manifest.bytes);
      const decoded = decodeSafetensors(await readFile(file));
      if (!decoded.ok) throw new Error(decoded.issue.message);
      expect(decoded.value.tensors.map(({ name, shape }) => [name, ...shape])).toEqual(
        slots.map(({ name, shape }) => [name, ...shape]),
      );
      const joined = Float32Array.from(decoded.value.tensors.flatMap((one) => [...one.values]));
      expect(joined).toEqual(values.slice(0, size));
      // once more: nothing comes a second time
      const again = await fetchTier(manifest, out, { tier, file }, { sources, signal });
      expect(again.bytes).toBe(0);
    },
  );

  it('a state without tiers, or without that one, is refused in words', async () => {
    const tiers = await packed(ofTier(0));
    const to = { tier: 3, file: at('file') };
    await expect(
      fetchTier(tiers.manifest, at('none'), to, { sources: tiers.sources, signal }),
    ).rejects.toThrow('the state has tiers 0 to 2, not 3');
    const whole = await packed({ ...spec, ffn: 256 });
    await expect(
      fetchTier(
        whole.manifest,
        at('whole'),
        { ...to, tier: 1 },
        { sources: whole.sources, signal },
      ),
    ).rejects.toThrow('no tensor is cut into slices');
  });

  it('a file whose header does not fit it, or whose slices are out of order, is refused in words', async () => {
    const fetched = async (name: string, bytes: Uint8Array) => {
      await writeFile(at('state'), bytes);
      const manifest = await packFile(at('state'), at(name), {
        chunkBytes: 2 ** 14,
        erasure: null,
      });
      const sources = [createFolderSource(at(name))];
      return fetchTier(manifest, at(`${name} there`), { tier: 1, file: at('file') }, { sources, signal }); // biome-ignore format: one line
    };
    const long = new Uint8Array(100);
    new DataView(long.buffer).setBigUint64(0, 93n, true);
    await expect(fetched('long', long)).rejects.toThrow('it is not a safetensors file');
    const lengths = { w: 1, 'w.ring1': 1, 'w.ring2': 2, b: 1 };
    const tensors = Object.entries(lengths).map(([name, length]) => ({
      ...{ name, shape: [length], values: new Float32Array(length) },
    }));
    const disordered = encodeSafetensors({ tensors, metadata: {} });
    await expect(fetched('disordered', disordered)).rejects.toThrow('not one after another');
  });
});
