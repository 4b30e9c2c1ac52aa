/** The demo of the main job over one relay that nobody here wrote, by `--relay` as a user would. */
import { describe, expect, it } from 'vitest';
import { startDemo } from '../support/demo-run.ts';
import { thirdParties } from './third-parties.ts';

describe.each(thirdParties)('nostrain demo over $name $version', ({ start, isInstalled }) => {
  it.runIf(isInstalled())('linear', { timeout: 240_000 }, async () => {
    const relay = await start();
    try {
      const { document } = await startDemo('linear', [relay.url]);
      expect(document.rounds).toHaveLength(5);
    } finally {
      await relay.close();
    }
  });

  it.runIf(isInstalled())('gpt, 834 048 parameters', { timeout: 600_000 }, async () => {
    const relay = await start();
    try {
      const { document } = await startDemo('gpt', [relay.url], ['--quick']);
      expect(document.parameters).toBe(834_048);
      expect(document.rounds).toHaveLength(3);
    } finally {
      await relay.close();
    }
  });
});
