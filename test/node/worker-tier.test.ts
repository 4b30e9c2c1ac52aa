/** Which tier a worker trains on its machine, and what it is told. */

import { gptSpec } from 'nostrain/model';
import { completeSettings, presets, type Settings } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import type { Task } from '../../src/node/data/task.ts';
import {
  type Choosing,
  chooseTier,
  tierBanner,
  tierShown,
  withTier,
} from '../../src/node/pretrained/worker-tier.ts';

const MIB = 2 ** 20;

/** A machine with 100 MiB free, on which tier t takes 200 / 2^t MiB and as many tenths of a second. */
const machine = (more: Partial<Choosing> = {}): { choosing: Choosing; tried: number[] } => {
  const tried: number[] = [];
  const choosing: Choosing = {
    ...{ count: 3, freeBytes: 100 * MIB, patienceSeconds: 60 },
    leastBytes: () => 0,
    measure: async (tier) => {
      tried.push(tier);
      return { bytes: (200 * MIB) / 2 ** tier, secondsPerStep: 20 / 2 ** tier };
    },
    ...more,
  };
  return { choosing, tried };
};

describe('--tier auto', () => {
  it('takes the largest tier whose memory fits in four fifths of what is free, and tries no larger one', async () => {
    const { choosing, tried } = machine();
    const { tier, why } = await chooseTier(choosing);
    expect(tier).toBe(2);
    expect(tried).toEqual([3, 2, 1]);
    expect(why).toBe('tier 1 took 100 MiB; 100 MiB are free');
  });

  it('takes the full model where all of it fits', async () => {
    const { tier, why } = await chooseTier(machine({ freeBytes: 1000 * MIB }).choosing);
    expect([tier, why]).toEqual([0, 'the full model fits']);
  });

  it('leaves out a tier whose steps would keep the others waiting', async () => {
    const slow = machine({ freeBytes: 1000 * MIB, patienceSeconds: 6 }).choosing;
    const { tier, why } = await chooseTier(slow);
    expect(tier).toBe(2);
    expect(why).toContain('a step of tier 1 takes 10.0 s, and rounds leave 6.0 s');
  });

  it('never tries what cannot fit, and goes on with the smallest where nothing does', async () => {
    const { choosing, tried } = machine({ leastBytes: () => 90 * MIB });
    const { tier, why } = await chooseTier(choosing);
    expect(tier).toBe(3);
    expect(tried).toEqual([]);
    expect(why).toBe(
      'tier 3 takes 90 MiB at least; 100 MiB are free: the smallest tier is used anyway',
    );
  });
});

const settings = (more: Partial<Settings>): Settings =>
  completeSettings(presets['char-gpt'], { run: 'r', relay: [], model: 'char-gpt' }, more);
const taskOf = (given: Settings) => ({ model: gptSpec(given, 96) }) as Task;

describe('the tier of a session', () => {
  const measuring = (notices: string[]) => ({
    prepare: async (given: Settings) => taskOf(given),
    open: async () => {
      throw new Error('nothing is measured here');
    },
    onNotice: (message: string) => void notices.push(message),
    signal: new AbortController().signal,
  });

  it('stays as asked for; a run without tiers has none', async () => {
    const notices: string[] = [];
    const asked = settings({ tiers: 2, tier: '1' });
    const chosen = await withTier(asked, measuring(notices));
    expect(chosen.settings).toEqual(asked);
    expect(chosen.task).toEqual(taskOf(asked));
    const none = settings({});
    expect(await withTier(none, measuring(notices))).toEqual({ settings: none });
    expect(notices).toEqual([]);
  });

  it('E-14: who asks for a tier that cannot fit is warned', async () => {
    const notices: string[] = [];
    const huge = settings({ tiers: 2, tier: '0', width: 2 ** 13, ffn: 2 ** 15, layers: 8 });
    await withTier(huge, measuring(notices));
    expect(notices).toHaveLength(1);
    expect(notices[0]).toMatch(
      /^tier 0 takes \d+ MiB at least and \d+ MiB are free here: --tier auto takes one that fits$/,
    );
  });

  it('E-14: the banner says tier, effective tier, strategy, width and share', () => {
    const shown = tierShown(taskOf(settings({ tiers: 2, tier: '1' })))!;
    expect(shown).toMatchObject({ own: 1, of: 2, width: 256, wholeWidth: 512 });
    expect(shown.share).toBeGreaterThan(0.5);
    expect(shown.share).toBeLessThan(0.75);
    expect(tierBanner(shown, 'auto')).toBe(
      `tier 1 of 2 (requested auto), effective tier 1, strategy universal: feed-forward width 256 of 512, ${(100 * shown.share).toFixed(1)} % of the parameters`,
    );
    expect(tierShown(taskOf(settings({})))).toBeUndefined();
  });
});
