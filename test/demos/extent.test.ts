import { describe, expect, it } from 'vitest';
import { fitExtent, secondsOf, wordPlan } from '../../demos/train/extent.ts';

const wanted = { workers: 4, rounds: 20, innerSteps: 25 };
const usual = { seconds: 300, fewestRounds: 6 };
/** Two cores: four workers take twice the time of two. */
const onTwoCores = (alone: number) => ({ alone, together: 2 * alone });

describe('the extent of a demo', () => {
  it('is the wanted one on a fast machine', () => {
    expect(fitExtent(wanted, onTwoCores(0.1), usual)).toEqual(wanted);
  });

  it('has fewer rounds on a slow machine', () => {
    const time = onTwoCores(0.53);
    const extent = fitExtent(wanted, time, usual);
    expect(extent).toEqual({ workers: 4, rounds: 8, innerSteps: 25 });
    expect(secondsOf(extent, time)).toBeLessThanOrEqual(300);
    expect(wordPlan(extent, wanted, secondsOf(extent, time))).toBe(
      'this machine is slow, so the plan is 8 rounds of 25 steps, about 5 min; ' +
        'for all of it: --rounds 20 --inner-steps 25',
    );
  });

  it('has fewer steps too on a slower one, and never less than a few', () => {
    const time = onTwoCores(1.2);
    const extent = fitExtent(wanted, time, usual);
    expect(extent).toEqual({ workers: 4, rounds: 6, innerSteps: 13 });
    expect(secondsOf(extent, time)).toBeLessThanOrEqual(300);
    expect(fitExtent(wanted, onTwoCores(100), usual)).toEqual({
      workers: 4,
      rounds: 6,
      innerSteps: 5,
    });
  });

  it('of a quick demo fits into a minute', () => {
    const time = onTwoCores(0.53);
    const quick = { workers: 4, rounds: 3, innerSteps: 20 };
    const extent = fitExtent(quick, time, { seconds: 60, fewestRounds: 3 });
    expect(extent.rounds).toBe(3);
    expect(secondsOf(extent, time)).toBeLessThanOrEqual(60);
    expect(wordPlan(quick, quick, 45.4)).toBe('plan: 3 rounds of 20 steps, about 45 s');
  });
});
