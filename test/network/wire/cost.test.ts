import { merklePath, toBase64, toHex, utf8 } from 'nostrain/base';
import { chunk } from 'nostrain/kinds';
import {
  buildManifest,
  buildPresence,
  chunkTree,
  type EventDraft,
  splitChunks,
} from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { INSIDE_BYTES } from '../../../kinds/manifest.ts';
import { type CostInput, floorSeconds, roundCost } from '../../../src/network/wire/cost.ts';
import { gradientEvents } from '../../../src/python/wire/sizes.ts';
import { signerOf } from '../../support/signers.ts';

const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_600_000 };
const me = signerOf(1);
const bytesOf = (draft: EventDraft) => utf8(JSON.stringify(me.sign(draft))).length;

const input: CostInput = {
  run: 'winter',
  payloadBytes: 1000,
  stripe: { need: 1, of: 1 },
  workers: 3,
  relays: ['wss://one.example'],
  roundSeconds: 60,
  heartbeatSeconds: 20,
};
const payloadOf = (bytes: number) => Uint8Array.from({ length: bytes }, (_, i) => i ^ (i >>> 8));

/** The chunk events of a payload, signed and measured. */
function realChunks(payload: Uint8Array): readonly number[] {
  const tree = chunkTree(payload);
  const { root, bytes, count } = tree;
  return splitChunks(payload).map((data, index) => {
    const path = merklePath(tree, index).map(toHex);
    const fields = { root, index, count, bytes, path: path.length > 0 ? path : undefined };
    const { createdAt, expiresAt: expiration } = lifetime;
    return bytesOf(chunk.build({ ...fields, expiration, data: toBase64(data) }, createdAt));
  });
}

describe('the cost of a round', () => {
  test('of a payload inside the manifest: one manifest, and a heartbeat an interval', () => {
    const cost = roundCost(input);
    expect(cost).toMatchObject({
      form: 'inside',
      commit: { events: 1 },
      chunks: { events: 0, bytes: 0 },
      heartbeats: { events: 3 },
      checkpoint: { events: 0, bytes: 0 },
      toEachRelay: { events: 4 },
      sent: { events: 4 },
      received: { events: 8 },
      fixedEvents: 1,
    });
    expect(cost.toEachRelay.bytes).toBe(cost.commit.bytes + cost.heartbeats.bytes);
    expect(cost.received.bytes).toBe(2 * cost.toEachRelay.bytes);
    expect(cost.largestChunkBytes).toBe(0);
  });

  test('up to what fits one event; one byte more makes two chunks', () => {
    const inside = roundCost({ ...input, payloadBytes: INSIDE_BYTES });
    expect([inside.form, inside.chunks.events]).toEqual(['inside', 0]);
    expect(inside.commit.bytes).toBeLessThan(65_536);
    const chunked = roundCost({ ...input, payloadBytes: INSIDE_BYTES + 1 });
    expect([chunked.form, chunked.chunks.events, chunked.fixedEvents]).toEqual(['chunks', 2, 3]);
    expect(chunked.largestChunkBytes).toBeLessThan(65_536);
  });

  test('100,000 bytes are chunks of 45,056, 45,056 and 9,888', () => {
    const cost = roundCost({ ...input, payloadBytes: 100_000 });
    expect(cost.chunks.events).toBe(3);
    // 60,076 + 60,076 + 13,184 characters of base64
    expect(cost.chunks.bytes - 133_336).toBeGreaterThan(3 * 400);
    expect(cost.chunks.bytes - 133_336).toBeLessThan(3 * 800);
    expect(cost.toEachRelay.events).toBe(1 + 3 + 3);
  });

  test('chunks are asked for once, everything else comes from every relay', () => {
    const relays = ['wss://one.example', 'wss://two.example'];
    const { sent, received, chunks, commit, heartbeats } = roundCost({
      ...input,
      relays,
      payloadBytes: 100_000,
    });
    expect([sent.events, received.events]).toEqual([14, 2 * (3 + 2 * 4)]);
    expect(received.bytes).toBe(2 * (chunks.bytes + 2 * (commit.bytes + heartbeats.bytes)));
  });

  test('erasure-coded 2/3: 50,000 bytes in two chunks to each of three relays', () => {
    const cost = roundCost({
      ...input,
      relays: ['wss://a.example', 'wss://b.example', 'wss://c.example'],
      payloadBytes: 100_000,
      stripe: { need: 2, of: 3 },
    });
    expect(cost.form).toBe('shards');
    expect([cost.chunks.events, cost.toEachRelay.events, cost.sent.events]).toEqual([2, 6, 18]);
    // two other workers: two shards of two chunks, and a manifest and three heartbeats from each relay
    expect(cost.received.events).toBe(2 * (2 * 2 + 3 * 4));
  });

  test('a payload that rides inside is not erasure-coded', () => {
    const erasure = { need: 2, of: 3 };
    expect(roundCost({ ...input, stripe: erasure })).toEqual(roundCost(input));
  });

  test('nostrain/0 sends one event whatever its size, and a checkpoint counts as one', () => {
    const cost = roundCost({
      ...input,
      whole: gradientEvents,
      payloadBytes: 600_000,
      checkpointBytes: 2000,
    });
    expect(cost).toMatchObject({ form: 'inside', chunks: { events: 0 }, fixedEvents: 2 });
    expect(cost.commit.bytes).toBeGreaterThan(800_000);
    expect(cost.commit.bytes).toBeLessThan(802_000);
    expect(cost.checkpoint).toEqual({ events: 1, bytes: 2000 });
  });

  test('one worker alone receives nothing', () => {
    expect(roundCost({ ...input, workers: 1 }).received).toEqual({ events: 0, bytes: 0 });
  });
});

describe('sizes are those of real events', () => {
  test('of the manifest', () => {
    const payload = payloadOf(1000);
    const own = {
      run: 'winter',
      round: 9999,
      base: 'ab'.repeat(32),
      codec: 'topk-0.1000-int8-zlib',
    };
    const rest = { examples: 9999, steps: 9999, prev: 'ab'.repeat(32) };
    const built = buildManifest({ ...own, ...rest }, payload, lifetime);
    expect(roundCost(input).commit.bytes).toBe(bytesOf(built.draft));
  });

  test.each([INSIDE_BYTES + 1, 100_000, 400_000])(
    'of the chunks of %d bytes, never below',
    (payloadBytes) => {
      const real = realChunks(payloadOf(payloadBytes));
      const sum = real.reduce((a, b) => a + b);
      const cost = roundCost({ ...input, payloadBytes });
      expect(cost.chunks.events).toBe(real.length);
      expect(cost.chunks.bytes).toBeGreaterThanOrEqual(sum);
      expect(cost.chunks.bytes - sum).toBeLessThan(140 * real.length);
      expect(cost.largestChunkBytes).toBeGreaterThanOrEqual(Math.max(...real));
    },
  );

  test('of the heartbeat, which names every worker of the last round', () => {
    const cohort = Array.from({ length: 3 }, (_, i) => `${i}`.repeat(64));
    const draft = buildPresence('winter', {
      ...{ worker: me.publicKey, round: 9999, intervalSeconds: 20, digest: 'ab'.repeat(32) },
      ...{ examples: undefined, leaving: false, capabilities: ['gradient-event'] },
      ...{ cohort, relays: input.relays, createdAt: lifetime.createdAt },
    });
    const { heartbeats } = roundCost(input);
    expect(heartbeats.bytes / heartbeats.events).toBe(bytesOf(draft));
  });
});

describe('the shortest round', () => {
  const budget = { heartbeatSeconds: 60, workersPerIp: 1, perMinute: 5 };

  test.each([
    // 12 s for the event, and for each heartbeat: x = 12 * (1 + x / 60)
    [{ fixedEvents: 1 }, 15],
    // four workers behind one IP: x = 48 * (1 + x / 60)
    [{ fixedEvents: 1, workersPerIp: 4 }, 240],
    // x = 12 * (2 + x / 60)
    [{ fixedEvents: 2 }, 30],
    // two workers behind one IP: x = 24 * (2 + x / 60)
    [{ fixedEvents: 2, workersPerIp: 2 }, 80],
    // x = 12 * (5 + x / 20)
    [{ fixedEvents: 5, heartbeatSeconds: 20 }, 150],
    // a relay that takes twice as many: x = 6 * (2 + x / 60)
    [{ fixedEvents: 2, perMinute: 10 }, 40 / 3],
    // heartbeats alone are as many as it takes
    [{ fixedEvents: 2, heartbeatSeconds: 12 }, Number.POSITIVE_INFINITY],
    [{ fixedEvents: 2, heartbeatSeconds: 20, workersPerIp: 2 }, Number.POSITIVE_INFINITY],
    // an own relay takes them all
    [{ fixedEvents: 2, perMinute: Number.POSITIVE_INFINITY }, 0],
  ])('%j is %d s', (change, seconds) => {
    expect(floorSeconds({ ...budget, ...change })).toBeCloseTo(seconds, 9);
  });

  test('holds what protocol.md says: 12 s for every event the IP sends in it', () => {
    const seconds = floorSeconds({ ...budget, fixedEvents: 17 });
    const { toEachRelay, fixedEvents } = roundCost({
      ...input,
      payloadBytes: 16 * CHUNK_BYTES,
      roundSeconds: seconds,
      heartbeatSeconds: 60,
    });
    expect(fixedEvents).toBe(17);
    expect(12 * toEachRelay.events).toBeCloseTo(seconds, 9);
  });
});
