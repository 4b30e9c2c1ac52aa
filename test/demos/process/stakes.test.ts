import { stakeOf } from 'nostrain/run';
import { expect } from 'vitest';
import { startStakedChain } from '../../../demos/certified/run.ts';
import { anvilMissing, never } from '../../support/anvil.ts';
import { itWith } from '../../support/needs.ts';

itWith(anvilMissing)('a chain starts with the stakes of a demo, proved', async () => {
  const stakes = new Map([
    ['11'.repeat(32), 10n ** 18n],
    ['22'.repeat(32), 2n * 10n ** 18n],
  ]);
  const chain = (await startStakedChain(stakes, never))!;
  try {
    expect(stakeOf(chain.snapshot)).toEqual(stakes);
    expect(chain.snapshot.strategy).toBe('registry');
  } finally {
    await chain.stop();
  }
  await expect(fetch(chain.url)).rejects.toThrow();
});
