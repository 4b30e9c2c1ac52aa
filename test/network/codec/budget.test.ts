import { ConfigError } from 'nostrain/base';
import { createPacker } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { CHUNK_LENGTH, createLayout } from 'nostrain/tensor';
import { expect, test } from 'vitest';
import { trellisWithin } from '../../../src/network/codec/codecs.ts';
import { payloadBudget } from '../../../src/network/wire/packer.ts';
import { drawnDelta } from '../../support/drawn-delta.ts';

test('a budget that holds nothing is refused', () => {
  expect(() => trellisWithin(84, 1)).toThrow(ConfigError);
  expect(() => trellisWithin(45_056, 20_000)).toThrow(/20000 chunks/);
});

test('a payload in chunks costs a third more as base64, and one in an event its envelope', () => {
  expect(payloadBudget('r', 1_000_000)).toBe(733_494);
  expect(payloadBudget('r', 32_768)).toBe(23_040);
});

test.each(['trellis', 'int8'] as const)(
  'a packer encodes a delta as %s alike at once, in turns and like another one',
  async (packing) => {
    const delta = drawnDelta(40 * CHUNK_LENGTH);
    const layout = createLayout([{ name: 'weight', shape: [delta.length] }]);
    const packer = createPacker({
      ...{ run: 'run', layout, packing, eventBudget: 6000 },
      sha256: nativeSha256,
    });
    const moving = Uint32Array.from({ length: 40 }, (_, i) => i);
    const assignment = { digest: undefined, moving, chunksOf: () => moving, most: 40 };
    const context = { round: 3, worker: 'a'.repeat(64), assignment };
    const { payload } = packer.pack(delta, context);
    let isDone = false;
    const inTurns = packer.packInTurns(delta, context).finally(() => {
      isDone = true;
    });
    // a timer that is due runs before the last chunk is encoded
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(isDone).toBe(false);
    const isSame = (other: Uint8Array) => Buffer.compare(other, payload) === 0;
    expect(isSame((await inTurns).payload)).toBe(true);
    expect(isSame(packer.packLike(payload, delta, context)!)).toBe(true);
  },
);
