import fc from 'fast-check';
import { expect, test } from 'vitest';
import { backoffMs, defaultRetry, type RetryPolicy } from '../../src/base/retry.ts';

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
