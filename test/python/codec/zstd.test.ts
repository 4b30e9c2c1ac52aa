/** zstd payloads: those of the reference and ours are decoded, hostile frames are refused before decompression. */

import type { Zstd } from 'nostrain/python';
import { openZstd } from 'nostrain/python/node';
import { decodeNstr, encodeNstr, readNstr } from 'nostrain/python/parts';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { expandZstd } from '../../../src/python/codec/container.ts';
import { drawnDelta } from '../../support/drawn-delta.ts';
import { toParams } from '../../support/vectors.ts';
import payloads from '../../vectors/payloads.json' with { type: 'json' };

const zstd = await openZstd();
const maxContainerBytes = 1 << 20;
const LIMIT = 1 << 20;

test('the payload of the reference', () => {
  const { delta, payload, decoded, stats } = payloads.cases.find(({ codec }) => codec === 'zstd')!;
  const { layout } = toParams(delta as Parameters<typeof toParams>[0]);
  const read = decodeNstr(payload ?? '', { layout, maxContainerBytes, zstd });
  if (!read.ok) throw new Error(read.issue.message);
  const values = new Float64Array(layout.size);
  read.value.delta.indices.forEach((index, i) => {
    values[index] = read.value.delta.values[i]!;
  });
  expect(stateDigest({ layout, values })).toBe(decoded?.digest);
  expect(read.value.stats).toMatchObject({
    codec: 'zstd',
    label: stats?.compression_label,
    containerBytes: stats?.wire_bytes,
  });
});

test('what we write is read back, and says so', () => {
  const layout = createLayout([{ name: 'w', shape: [300, 200] }]);
  const { payload, sent, stats } = encodeNstr(
    { layout, values: drawnDelta(layout.size) },
    { ratio: 0.3, zstd },
  );
  expect(stats.label).toBe('topk-0.3000-int8-zstd');
  const limits = { maxContainerBytes, zstd };
  expect(decodeNstr(payload, { ...limits, layout })).toEqual({
    ok: true,
    value: { delta: sent, stats },
  });
  expect(readNstr(payload, { ...limits, maxValues: layout.size })).toEqual({
    ok: true,
    value: { layout, delta: sent, stats },
  });
  expect(readNstr(payload, { ...limits, maxValues: 59_999 })).toMatchObject({
    ok: false,
    issue: { code: 'too-large' },
  });
});

describe('hostile frames', () => {
  const block = Uint8Array.from({ length: 5000 }, (_, i) => i % 7);
  const frame = zstd.compress(block);
  /** A decoder that fails if it is called: none of the frames below may reach it. */
  const never: Zstd = {
    ...zstd,
    expand: () => {
      throw new Error('expanded');
    },
  };
  const MAGIC = [0x28, 0xb5, 0x2f, 0xfd];
  const bytes = (...rest: number[]) => Uint8Array.of(...MAGIC, ...rest);
  const lastRle = (size: number) => {
    const header = (size << 3) | (1 << 1) | 1;
    return [header & 255, (header >>> 8) & 255, header >>> 16, 0];
  };

  test('the sound one is fine', () => {
    expect(expandZstd(frame, LIMIT, zstd)).toEqual({ ok: true, value: block });
    expect(expandZstd(frame, 4999, never)).toMatchObject({ issue: { code: 'too-large' } });
  });

  test.each([
    ['nothing', new Uint8Array(0)],
    ['another magic', frame.map((byte, i) => (i === 0 ? byte ^ 1 : byte))],
    ['no size', bytes(0x00, 0x50, ...lastRle(1))],
    ['a dictionary', bytes(0x21, 0, 1, ...lastRle(1))],
    ['a reserved bit', bytes(0x28, 1, ...lastRle(1))],
    ['a size that is cut off', bytes(0xe0, 1, 2, 3)],
    ['2^64 - 1 bytes', bytes(0xe0, 255, 255, 255, 255, 255, 255, 255, 255, ...lastRle(1))],
    ['a megabyte in one small block', bytes(0xa0, 0, 0, 16, 0, ...lastRle(131_072))],
    ['a block beyond 128 KiB', bytes(0xa0, 0, 0, 4, 0, ...lastRle(262_144))],
    ['a reserved block', bytes(0x20, 1, 7 | 8, 0, 0, 0)],
    ['a window of a gigabyte', bytes(0x80, 0xa0, 1, 0, 0, 0, ...lastRle(1))],
    ['no last block', bytes(0x20, 1, 8 | 2, 0, 0, 0)],
    ['a byte after the end', Uint8Array.of(...frame, 0)],
    ['two frames', Uint8Array.of(...frame, ...frame)],
    ['a frame cut short', frame.subarray(0, -1)],
  ])('%s is refused unread', (_, hostile) => {
    const read = expandZstd(hostile, LIMIT, never);
    expect(read.ok ? '' : read.issue.message).toMatch(/states|content of/);
  });

  test('a block of 98,000 sequences in 22 bytes, hours of work for a careless decoder', () => {
    const sequences = [0, 255, 255, 255, 0x54, 0, 5, 52, 1];
    const header = (sequences.length << 3) | (2 << 1) | 1;
    const hostile = bytes(0xa0, 0, 0, 2, 0, header, 0, 0, ...sequences);
    expect(expandZstd(hostile, LIMIT, zstd)).toMatchObject({ issue: { code: 'bad-zstd' } });
  });

  test('flipped bits never throw', () => {
    for (let at = 0; at < frame.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const flipped = frame.map((byte, i) => (i === at ? byte ^ (1 << bit) : byte));
        const read = expandZstd(flipped, LIMIT, zstd);
        if (read.ok) expect(read.value.length).toBeLessThanOrEqual(LIMIT);
      }
    }
  });
});
