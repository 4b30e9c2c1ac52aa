/** Messages about a certified run that stalls. */

import type { RunEvent } from 'nostrain/certified';
import { createReporter } from 'nostrain/certified/parts';
import { expect, it } from 'vitest';
import { troubleOf } from '../../src/dashboard/view.ts';

const peer = '32cad8c2'.padEnd(64, '0');

it('names the members that have not voted', () => {
  const stalled = { type: 'stalled', round: 3, attempt: 0, view: 0, missing: [peer] } as const;
  expect(troubleOf(stalled)).toBe(
    'Round 4 is not decided yet: no vote from npub1xt9d3ss. Trying again.',
  );
  expect(troubleOf({ ...stalled, attempt: 2, missing: [] })).toBe(
    'Round 4 is not decided yet in recovery epoch 2. Trying again.',
  );
});

it('says how to give a run more time', () => {
  expect(troubleOf({ type: 'voids', round: 2, count: 3 })).toBe(
    'round 3: ALERT, 3 rounds in a row were void, so no contribution counts: find out which workers are missing, or create a new run that waits longer (run create with a larger --timing-grace-min-ms)',
  );
});

it('says what the run waits for, and who can provide it', () => {
  const told: RunEvent[] = [];
  const reporter = createReporter((event) => void told.push(event));
  reporter.uncomposable(3, { code: 'nothing-accepted', at: 'accepted', message: 'm' });
  reporter.uncomposable(3, { code: 'other', at: 'joins', message: 'joins are missing' });
  reporter.unavailable(0, 'snapshot', 'no event carries or names it');
  reporter.unavailable(4, 'beacon', 'not yet');
  expect(told.map((event) => event.type === 'notice' && event.message)).toEqual([
    'No contribution to round 4 has arrived yet.',
    'Cannot propose an outcome for round 4 yet: joins are missing',
    'No relay of this run has its stake table. Ask the author of the run to publish it, or add --stake FILE. (no event carries or names it)',
    'round 5 waits for its beacon: not yet',
  ]);
});
