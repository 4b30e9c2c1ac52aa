import { describe, expect, it } from 'vitest';
import { decryptShard, encryptShard, splitLines } from '../../src/sealed/shard.ts';

const key = new Uint8Array(32).fill(1);
const place = { id: 'ab'.repeat(32), shard: 3 };
const bytesOf = (length: number) => Uint8Array.from({ length }, (_, i) => (31 * i) & 255);

describe('an encrypted shard', () => {
  it.each([0, 1, 2 ** 20, 2 ** 20 + 1])('of %i bytes decrypts', async (length) => {
    const data = bytesOf(length);
    const sealed = await encryptShard(data, key, place);
    const opened = await decryptShard(sealed, key, { ...place, bytes: length });
    expect(opened.ok && Buffer.compare(opened.value, data)).toBe(0);
  });

  it('does not decrypt in another place, with another key, or changed', async () => {
    const sealed = await encryptShard(bytesOf(100), key, place);
    const here = { ...place, bytes: 100 };
    const changed = Uint8Array.from(sealed);
    changed[50]! ^= 1;
    for (const [bytes, secret, where] of [
      [sealed, key, { ...here, shard: 4 }],
      [sealed, key, { ...here, id: 'cd'.repeat(32) }],
      [sealed, new Uint8Array(32), here],
      [changed, key, here],
    ] as const) {
      const opened = await decryptShard(bytes, secret, where);
      expect(opened).toMatchObject({ issue: { code: 'bad-chunk' } });
    }
    const cut = await decryptShard(sealed.subarray(1), key, here);
    expect(cut).toMatchObject({ issue: { code: 'bad-length' } });
  });

  it('does not decrypt with its chunks in another order', async () => {
    const chunk = 2 ** 20 + 16;
    const sealed = await encryptShard(bytesOf(2 ** 21), key, place);
    const swapped = Buffer.concat([sealed.subarray(chunk), sealed.subarray(0, chunk)]);
    const opened = await decryptShard(swapped, key, { ...place, bytes: 2 ** 21 });
    expect(opened).toMatchObject({ issue: { code: 'bad-chunk' } });
  });
});

describe('lines', () => {
  const text = Buffer.from('head\na\nbb\nccc\ndddd\n');
  const texts = (parts: readonly Uint8Array[]) => parts.map((part) => Buffer.from(part).toString());

  it('are split into parts of nearly equal size', () => {
    expect(texts(splitLines(text, 1, false))).toEqual([text.toString()]);
    expect(texts(splitLines(text, 2, false))).toEqual(['head\na\nbb\n', 'ccc\ndddd\n']);
    expect(texts(splitLines(text, 2, true))).toEqual(['head\na\nbb\nccc\n', 'head\ndddd\n']);
  });

  it('leave parts empty if there are too few', () => {
    expect(splitLines(Buffer.from('a'), 3, false).map(({ length }) => length)).toEqual([1, 0, 0]);
  });
});
