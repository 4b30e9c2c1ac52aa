/** The demo of the main job over one relay that nobody here wrote, by `--relay` as a user would. */
import { describe, expect } from 'vitest';
import { startDemo } from '../support/demo-run.ts';
import { itWith } from '../support/needs.ts';
import { thirdParties } from './third-parties.ts';

describe.each(thirdParties)(
  'nostrain demo over $name $version',
  ({ start, isInstalled, install }) => {
    const missing = isInstalled() ? undefined : `not installed; that takes: ${install}`;
    itWith(missing)(
      'linear',
      async () => {
        const relay = await start();
        try {
          const { document } = await startDemo('linear', [relay.url]);
          expect(document.rounds).toHaveLength(5);
        } finally {
          await relay.close();
        }
      },
      { timeout: 240_000 },
    );

    itWith(missing)(
      'gpt, 834 048 parameters',
      async () => {
        const relay = await start();
        try {
          const { document } = await startDemo('gpt', [relay.url], ['--quick']);
          expect(document.parameters).toBe(834_048);
          expect(document.rounds).toHaveLength(3);
        } finally {
          await relay.close();
        }
      },
      { timeout: 600_000 },
    );
  },
);
