import fc from 'fast-check';
import { ConfigError } from 'nostrain/base';
import { seatsAtMost } from 'nostrain/consensus';
import { choosePacking, createPacker, encodePayload, payloadBytesAtMost } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { CHUNK_LENGTH, chunkCount, createLayout } from 'nostrain/tensor';
import { expect, test } from 'vitest';
import { payloadBudget } from '../../../src/network/wire/packer.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';

/** What a manifest carries inside itself. */
const INSIDE = 45_056;
const charGpt = chunkCount(834_048);

test('one event per worker and round for the character model and four workers', () => {
  expect(choosePacking(INSIDE, seatsAtMost(charGpt, 4, 1))).toEqual({ codec: 'ternary', kept: 0 });
  const twice = choosePacking(INSIDE, seatsAtMost(charGpt, 4, 2));
  expect(twice.codec).toBe('topk-sign');
  expect(twice.kept).toBeGreaterThan(600);
});

test('what is chosen fits, and the next richer one does not', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 200, max: 200_000 }),
      fc.integer({ min: 1, max: 60 }),
      (bytes, chunks) => {
        fc.pre(bytes >= payloadBytesAtMost({ codec: 'topk-sign', kept: 1 }, chunks));
        const packing = choosePacking(bytes, chunks);
        expect(payloadBytesAtMost(packing, chunks)).toBeLessThanOrEqual(bytes);
        if (packing.codec !== 'topk-sign' || packing.kept === 1638) return;
        const more = { ...packing, kept: packing.kept + 1 };
        expect(payloadBytesAtMost(more, chunks)).toBeGreaterThan(bytes);
      },
    ),
  );
});

test('real payloads stay within what was computed', () => {
  const delta = drawnDelta(6 * CHUNK_LENGTH);
  for (const bytes of [300, 1000, 3000, 6000, 9000, 14_000, 40_000]) {
    const { payload } = encodePayload(delta, choosePacking(bytes, 6), scopeOf(delta.length));
    expect(payload.length).toBeLessThanOrEqual(bytes);
    expect(payload.length).toBeGreaterThan(0.4 * bytes);
  }
});

test('richer codes as the budget grows', () => {
  const names = [200, 910, 1000, 1200, 3000, 6000].map((bytes) => choosePacking(bytes, 1).codec);
  expect(names).toEqual(['topk-sign', 'ternary', 'ternary', 'q2', 'int4', 'int8']);
});

test('a budget that holds nothing is said so', () => {
  expect(() => choosePacking(84, 1)).toThrow(ConfigError);
  expect(() => choosePacking(45_056, 20_000)).toThrow(/20000 chunks/);
});

test('base64 costs a third', () => {
  expect(payloadBudget(65_536, 1_536)).toBe(48_000);
  expect(payloadBudget(100, 200)).toBe(0);
});

test.each(['trellis', 'q2'] as const)('who packs the same again as %s gets the same', (packing) => {
  const delta = drawnDelta(6 * CHUNK_LENGTH);
  const layout = createLayout([{ name: 'weight', shape: [delta.length] }]);
  const packer = createPacker({
    ...{ run: 'run', layout, packing, eventBudget: 6000, ratio: 1 },
    sha256: nativeSha256,
  });
  const moving = Uint32Array.from({ length: 6 }, (_, i) => i);
  const assignment = { digest: undefined, moving, chunksOf: () => moving, most: 6 };
  const context = { round: 3, worker: 'a'.repeat(64), assignment };
  const { payload } = packer.pack(delta, context);
  expect(packer.packLike(payload, delta, context)).toEqual(payload);
});
