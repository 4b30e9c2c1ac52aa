/** Weight files that contradict each other or themselves are refused before any tensor is read. */

import { encodeSafetensors } from 'nostrain/tensor';
import { expect, it } from 'vitest';
import { openSafetensors, readJson, readShard, sourceOf } from '../../src/pretrained/weights.ts';

const shard = (name: string) =>
  encodeSafetensors({ tensors: [{ name, shape: [1], values: Float32Array.of(1) }], metadata: {} });

it('a tensor in two files is refused, and one file that is not there is named', async () => {
  const files = { 'a.safetensors': shard('w'), 'b.safetensors': shard('w'), 'c.safetensors': shard('v') }; // biome-ignore format: one line
  const open = async (name: string) =>
    name in files ? sourceOf(name, files[name as keyof typeof files]) : undefined;
  const opened = (...names: string[]) =>
    openSafetensors(
      { name: 'model', open },
      names.map((name) => `${name}.safetensors`),
    );
  expect([...(await opened('a', 'c')).keys()]).toEqual(['w', 'v']);
  await expect(opened('a', 'b')).rejects.toThrow('b.safetensors: w is also in another file');
  await expect(opened('a', 'd')).rejects.toThrow('model lacks d.safetensors');
});

it('a header or a JSON file over 64 MiB is refused by its length alone', async () => {
  const reads: number[] = [];
  const sourceWith = (size: number, headerBytes = 0) => ({
    ...{ name: 'it', size },
    read: async (from: number, to: number) => {
      reads.push(to - from);
      const bytes = new Uint8Array(8);
      new DataView(bytes.buffer).setBigUint64(0, BigInt(headerBytes), true);
      return bytes;
    },
  });
  const most = 2 ** 26;
  await expect(readShard(sourceWith(2 ** 30, most + 1))).rejects.toThrow('does not fit');
  await expect(readShard(sourceWith(100, 93))).rejects.toThrow('does not fit');
  await expect(readJson(sourceWith(most + 1))).rejects.toThrow('too large');
  expect(Math.max(...reads)).toBe(8);
});
