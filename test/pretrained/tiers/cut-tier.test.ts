/** Cutting the weight files of a tier, piece by piece, out of files that are larger than a piece. */

import { ConfigError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { cutWeights } from '../../../src/pretrained/tiers/cut-tier.ts';
import { type ModelFiles, sourceOf } from '../../../src/pretrained/weights.ts';
import { decodeSafetensors, encodeSafetensors } from '../../../src/tensor/safetensors.ts';

const BASE = 2 ** 18;
const ROWS = 6;

/** A model in one file whose feed-forward matrices have this many numbers along the width. */
function modelOf(width: number, names = ['mlp.gate_proj.weight', 'mlp.down_proj.weight']) {
  const tensors = names.map((name) => ({
    name,
    shape: name.includes('down') ? [ROWS, width] : [width, ROWS],
    values: Float32Array.from({ length: ROWS * width }, (_, i) => i),
  }));
  const bytes = encodeSafetensors({ tensors, metadata: { format: 'pt' } });
  const open = async (name: string) =>
    name === 'model.safetensors' ? sourceOf(name, bytes) : undefined;
  return { tensors, files: { name: 'model', open } satisfies ModelFiles };
}

async function written(files: ModelFiles, tier: number) {
  const [file] = await cutWeights(files, { tier, base: BASE });
  const pieces: Uint8Array[] = [];
  for await (const piece of file!.pieces()) pieces.push(piece);
  const decoded = decodeSafetensors(Buffer.concat(pieces));
  if (!decoded.ok) throw new Error(decoded.issue.message);
  return decoded.value.tensors;
}

describe('the weight files of a tier', () => {
  it('have the first rows of gate and up, and of each row of down the first columns', async () => {
    const { tensors, files } = modelOf(BASE);
    const [gate, down] = await written(files, 1);
    expect(gate!.shape).toEqual([BASE / 2, ROWS]);
    expect(Buffer.from(gate!.values.buffer).equals(Buffer.from(tensors[0]!.values.slice(0, (ROWS * BASE) / 2).buffer))).toBe(true); // biome-ignore format: one line
    expect(down!.shape).toEqual([ROWS, BASE / 2]);
    for (let row = 0; row < ROWS; row++) {
      const ends = [0, BASE / 2 - 1].map((column) => down!.values[(row * BASE) / 2 + column]);
      expect(ends).toEqual([row * BASE, row * BASE + BASE / 2 - 1]);
    }
  });

  it('are refused if a matrix has another width than the config, or if there is nothing to cut', async () => {
    for (const { files } of [modelOf(8), modelOf(BASE, ['mlp.fc.weight'])]) {
      await expect(cutWeights(files, { tier: 1, base: BASE })).rejects.toMatchObject({
        constructor: ConfigError,
        code: 'tiers/shape',
      });
    }
  });
});
