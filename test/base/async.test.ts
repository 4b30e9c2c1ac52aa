import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import {
  backoffMs,
  defaultRetry,
  deferred,
  firstOf,
  type RetryPolicy,
} from '../../src/base/async.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

describe('the first of some promises', () => {
  it('is the one that settles first, with its value or its reason', async () => {
    const [a, b] = [deferred<string>(), deferred<string>()];
    const first = firstOf([a.promise, b.promise]);
    b.settle('b');
    a.settle('a');
    expect(await first).toBe('b');
    expect(await firstOf([a.promise, b.promise])).toBe('a');
    const broken = Promise.reject(new Error('no'));
    await expect(firstOf([deferred().promise, broken])).rejects.toThrow('no');
    await expect(firstOf([deferred().promise, broken])).rejects.toThrow('no');
  });

  it('ends several races that wait for the same one', async () => {
    const { promise, settle } = deferred<number>();
    const races = [1, 2, 3].map(() => firstOf([promise, deferred<number>().promise]));
    settle(7);
    expect(await Promise.all(races)).toEqual([7, 7, 7]);
  });

  it('does not stay in memory with a promise that never settles', async () => {
    const never = deferred<object>();
    const values = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const value = new WeakRef({ large: true });
        await firstOf<object>([never.promise, Promise.resolve(value.deref()!)]);
        return value;
      }),
    );
    await new Promise((resolve) => setTimeout(resolve));
    collect();
    expect(values.filter((value) => value.deref())).toEqual([]);
    never.settle({});
  });
});

const policy: RetryPolicy = {
  maxAttempts: 4,
  initialMs: 250,
  maxMs: 2000,
  multiplier: 2,
  jitter: 'none',
};
const half = () => 0.5;

test('waits double up to the cap', () => {
  const waits = [1, 2, 3, 4, 5, 6].map((failures) => backoffMs(policy, failures, half));
  expect(waits).toEqual([250, 500, 1000, 2000, 2000, 2000]);
});

test('full jitter draws from the whole length of the wait', () => {
  expect(backoffMs({ ...policy, jitter: 'full' }, 2, half)).toBe(250);
  expect(backoffMs({ ...policy, jitter: 'full' }, 2, () => 0)).toBe(0);
});

test('no cap and no initial wait stay finite', () => {
  expect(backoffMs({ ...policy, maxMs: Number.POSITIVE_INFINITY }, 11, half)).toBe(256_000);
  expect(backoffMs({ ...policy, initialMs: 0 }, 5000, half)).toBe(0);
  expect(backoffMs(policy, 5000, half)).toBe(2000);
});

test('no wait is negative or above the cap', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 3000 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (n, draw) => {
        const ms = backoffMs(defaultRetry, n, () => draw);
        expect(ms).toBeGreaterThanOrEqual(0);
        expect(ms).toBeLessThanOrEqual(defaultRetry.maxMs);
      },
    ),
  );
});
