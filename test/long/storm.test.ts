/** Fifty newcomers at once on a clock that moves by itself: what that costs the one who has the file, and each of them. */
import { describe, expect, it } from 'vitest';
import { storm } from '../support/storm.ts';

const median = (values: readonly number[]): number => values[Math.floor(values.length / 2)]!;

describe('R-19 a storm of fifty joiners', () => {
  it('costs the seeder at most four times the file, and each at most three times as long as one alone', async () => {
    const alone = await storm({ joiners: 1 });
    const { isWhole, missing, times, seeder } = await storm({ joiners: 50 });
    expect([isWhole, missing]).toEqual([true, 0]);
    expect(seeder).toBeLessThanOrEqual(4);
    expect(median(times)).toBeLessThanOrEqual(3 * median(alone.times));
  });
});
