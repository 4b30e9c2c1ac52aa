import { describe, expect } from 'vitest';
import { generateRun } from '../support/certified-run.ts';
import { itInChromium, runInChromium } from '../support/chromium.ts';
import { type Roots, run } from '../support/replay-roots.ts';

describe('a replay in a browser', () => {
  const made = generateRun();

  itInChromium('gives the same roots as in Node, to the bit', async () => {
    const entry = new URL('../support/replay-roots.ts', import.meta.url);
    const there = await runInChromium<typeof made.events, Roots>(entry, made.events);
    expect(there).toEqual(run(made.events));
    expect(there.modelRoots).toEqual(made.rounds.map(({ modelRoot }) => modelRoot));
    expect(there.checked).toEqual(made.rounds.map(() => 'full'));
    expect(there.genuine).toBe(made.events.length);
  });
});
