import { describe, expect, test } from 'vitest';
import { TokenBucket } from '../../../src/network/transport/rates.ts';
import { createManualClock, type ManualClock } from '../../support/manual-clock.ts';

const never = new AbortController().signal;

function create(perMinute: number, random = () => 0) {
  const clock = createManualClock();
  return { clock, bucket: new TokenBucket({ clock, random, perMinute }) };
}

/** Asks for tokens without end; the times they came, in seconds from the start. */
function drain(bucket: TokenBucket, clock: ManualClock): readonly number[] {
  const startMs = clock.now();
  const times: number[] = [];
  void (async () => {
    for (;;) {
      await bucket.take(never);
      times.push((clock.now() - startMs) / 1000);
    }
  })();
  return times;
}

test('five at once, then five a minute', async () => {
  const { clock, bucket } = create(5);
  const times = drain(bucket, clock);
  await clock.advance(36_000);
  expect(times).toEqual([0, 0, 0, 0, 0, 12, 24, 36]);
});

test('what is unused gathers up to five', async () => {
  const { clock, bucket } = create(5);
  await clock.advance(3_600_000);
  const taken = Array.from({ length: 7 }, () => bucket.takeNow());
  expect(taken.map((token) => token !== undefined)).toEqual([
    ...Array.from({ length: 5 }, () => true),
    false,
    false,
  ]);
  expect(bucket.waitMs).toBe(12_000);
});

test('no rate, no wait', async () => {
  const { bucket } = create(Number.POSITIVE_INFINITY);
  for (let i = 0; i < 1000; i++) expect(bucket.takeNow()).toBeDefined();
  expect(bucket.waitMs).toBe(0);
});

test('tokens go out in the order of requests, also if a caller leaves', async () => {
  const { clock, bucket } = create(1);
  bucket.takeNow();
  const order: string[] = [];
  const stop = new AbortController();
  const take = (name: string, signal: AbortSignal) =>
    bucket.take(signal).then(
      () => void order.push(name),
      (error: Error) => void order.push(`${name} ${error.message}`),
    );
  const all = ['a', 'b', 'c', 'd'].map((name) => take(name, name === 'b' ? stop.signal : never));
  await clock.advance(0);
  expect(bucket.takeNow()).toBeUndefined();
  stop.abort(new Error('left'));
  await clock.advance(60_000);
  expect(order).toEqual(['b left', 'a']);
  await clock.advance(120_000);
  await Promise.all(all);
  expect(order).toEqual(['b left', 'a', 'c', 'd']);
  expect(clock.pending).toBe(0);
});

describe('what can wait', () => {
  test('a patient caller takes only spare tokens: the others find a full bucket', async () => {
    const { clock, bucket } = create(5);
    const times: number[] = [];
    const startMs = clock.now();
    for (let i = 0; i < 3; i++) {
      void bucket.takePatiently(never).then(() => times.push((clock.now() - startMs) / 1000));
    }
    await clock.advance(24_000);
    expect(times).toEqual([0, 12, 24]);
    expect(Array.from({ length: 4 }, () => bucket.takeNow() !== undefined)).not.toContain(false);
  });

  test('gives way to who cannot, however long that is', async () => {
    const { clock, bucket } = create(5);
    for (let i = 0; i < 5; i++) bucket.takeNow();
    const order: string[] = [];
    void bucket.takePatiently(never).then(() => order.push('patient'));
    void bucket.take(never).then(() => order.push('urgent'));
    await clock.advance(12_000);
    expect(order).toEqual(['urgent']);
    await clock.advance(59_000);
    expect(order).toEqual(['urgent']);
    await clock.advance(1000);
    expect(order).toEqual(['urgent', 'patient']);
  });

  test('uses all of a rate, so that it rises', async () => {
    const { clock, bucket } = create(5);
    void (async () => {
      for (;;) await bucket.takePatiently(never);
    })();
    for (let minute = 0; minute < 3; minute++) {
      await clock.advance(30_000);
      expect(bucket.takeNow()).toBeDefined();
      await clock.advance(30_000);
    }
    expect(bucket.perMinute).toBeGreaterThan(10);
  });
});

describe('a refusal', () => {
  test('pauses a minute and up to half more, then half the rate', async () => {
    const { clock, bucket } = create(10, () => 0.5);
    for (let i = 0; i < 5; i++) bucket.takeNow();
    bucket.refuse(0);
    expect(bucket.perMinute).toBe(5);
    expect(bucket.waitMs).toBe(75_000);
    const times = drain(bucket, clock);
    await clock.advance(99_000);
    expect(times).toEqual([75, 87, 99]);
  });

  test('of a whole burst counts once, one after the pause again', async () => {
    const { clock, bucket } = create(8);
    const tokens = Array.from({ length: 5 }, () => bucket.takeNow());
    for (const token of tokens) bucket.refuse(token);
    bucket.refuse(); // a NOTICE that names no event
    expect(bucket.perMinute).toBe(4);
    await clock.advance(60_000);
    bucket.refuse(bucket.takeNow());
    expect(bucket.perMinute).toBe(2);
    await clock.advance(60_000);
    for (let i = 0; i < 9; i++) {
      bucket.refuse();
      await clock.advance(90_000);
    }
    expect(bucket.perMinute).toBe(0.5);
  });

  test('where nothing was limited leaves half of what the last minute brought', async () => {
    const { clock, bucket } = create(Number.POSITIVE_INFINITY);
    for (let i = 0; i < 60; i++) bucket.takeNow();
    await clock.advance(1000);
    bucket.refuse();
    expect(bucket.perMinute).toBe(30);
    const quiet = create(Number.POSITIVE_INFINITY).bucket;
    quiet.refuse();
    expect(quiet.perMinute).toBe(5);
  });
});

describe('a minute without a refusal', () => {
  test('in full use raises the rate by half', async () => {
    const { clock, bucket } = create(6);
    drain(bucket, clock);
    await clock.advance(59_000);
    expect(bucket.perMinute).toBe(6);
    await clock.advance(11_000);
    expect(bucket.perMinute).toBe(9);
    await clock.advance(70_000);
    expect(bucket.perMinute).toBe(13.5);
  });

  test('that was not needed once says nothing of full use', async () => {
    const { clock, bucket } = create(1.25);
    for (let i = 0; i < 20; i++) {
      await bucket.take(never); // there: the one before was long ago
      const waited = bucket.take(never);
      await clock.advance(48_000);
      await waited;
      await clock.advance(60_000);
    }
    expect(bucket.perMinute).toBe(1.25);
  });

  test('with room to spare changes nothing', async () => {
    const { clock, bucket } = create(6);
    for (let i = 0; i < 20; i++) {
      await bucket.take(never);
      await clock.advance(15_000);
    }
    expect(bucket.perMinute).toBe(6);
  });
});
