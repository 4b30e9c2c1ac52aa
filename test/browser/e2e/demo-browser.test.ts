import { join } from 'node:path';
import { expect } from 'vitest';
import type { BrowserDocument } from '../../../demos/browser/document.ts';
import { itInChromium } from '../../support/chromium.ts';
import { runProgram, temporaryFolder } from '../../support/processes.ts';

// two browsers, three workers and a certified run of several rounds: most of a minute, as nothing less shows that tabs take part
itInChromium(
  'N-24: tabs and processes end in one root, one tab is reloaded while it trains, and the run page replays it',
  async () => {
    const dir = join(temporaryFolder(), 'demo');
    const { code, stdout, stderr } = await runProgram([
      ...['demo', 'browser', '--headless', '--quick', '--json', '--dir', dir],
    ]);
    expect(code, stderr.slice(-4000)).toBe(0);
    const document: BrowserDocument = JSON.parse(stdout);
    const { agreed, rounds, workers, reloads, verifiedInPage } = document;
    expect(agreed).toBe(true);
    expect(verifiedInPage).toBe(true);
    expect(reloads).toBe(1);
    expect(rounds.length).toBeGreaterThanOrEqual(3);
    expect(new Set(workers.map(({ root }) => root))).toEqual(new Set([rounds.at(-1)!.root]));
    expect(workers.map(({ kind, backend }) => `${kind} ${backend}`)).toEqual([
      ...['node cpu', 'node cpu', 'node cpu', 'tab wasm'],
      expect.stringMatching(/^tab (webgpu|wasm)$/),
    ]);
    const tabs = workers.filter(({ kind }) => kind === 'tab');
    for (const { counted, name } of tabs) expect(counted, name).toBeGreaterThan(0);
  },
  600_000,
);
