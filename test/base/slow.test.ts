import { describe, expect, it } from 'vitest';
import {
  createSlowReporter,
  measuringReporter,
  shareReporter,
  whileSlow,
} from '../../src/base/slow.ts';
import { createManualClock } from '../support/manual-clock.ts';

describe('slow work', () => {
  it('is silent for two seconds, then reports every two at most', () => {
    let nowMs = 0;
    const lines: string[] = [];
    const report = createSlowReporter((words) => lines.push(words), { now: () => nowMs });
    for (; nowMs <= 7000; nowMs += 500) report(`${nowMs} ms`);
    expect(lines).toEqual(['2000 ms', '4000 ms', '6000 ms']);
  });

  it('that cannot measure its progress is named after two seconds, then every ten, until it ends', async () => {
    const clock = createManualClock();
    const lines: string[] = [];
    let end = (_: number) => {};
    const work = () => new Promise<number>((resolve) => (end = resolve));
    const result = whileSlow('opening the model', (words) => lines.push(words), work, clock);
    await clock.advance(1999);
    expect(lines).toEqual([]);
    await clock.advance(1);
    await clock.advance(10_000);
    end(7);
    expect(await result).toBe(7);
    await clock.advance(60_000);
    expect(lines).toEqual(['opening the model: 2 s so far', 'opening the model: 12 s so far']);
  });

  it('that is quick or fails says nothing', async () => {
    const clock = createManualClock();
    const refuse = () => {
      throw new Error('reported');
    };
    expect(await whileSlow('quick', refuse, async () => 1, clock)).toBe(1);
    await expect(
      whileSlow('failing', refuse, () => Promise.reject(new Error('no model')), clock),
    ).rejects.toThrow('no model');
    await clock.advance(60_000);
    measuringReporter('quick', refuse)({ batch: 1, batches: 2, loss: 1 });
    shareReporter('quick', refuse)(1, 2);
  });
});
