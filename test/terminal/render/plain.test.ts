import type { RunEvent } from 'nostrain/certified';
import { expect, it } from 'vitest';
import { renderPlain } from '../../../src/terminal/render/plain.ts';
import * as told from '../../support/demo-events.ts';

const SLOW = 'asks us to slow down (rate-limited: slow down); send less often';

it('tells a whole run, one line per event', () => {
  const lines = told.wholeRun
    .filter(([name]) => name === 'alice')
    .map(([name, event]) => renderPlain(name, event));
  expect(lines.join('\n')).toMatchInlineSnapshot(`
    "alice: npub15xs6rgd in run test: char-gpt, 834,048 parameters on cpu (1 thread), 2 rounds of 100 steps; loss 4.5600, state d0d0d0d0
    alice: round 1: step 50 of 100, loss 3.6000, 19.3k/s
    alice: round 1: step 100 of 100, loss 3.4000, 19.3k/s
    alice: round 1: trained for 20.0 s (20.5k/s), mean loss 3.5000
    alice: round 1: sent 300.0 kB in 401.2 kB of events to 1 of 1 relays
    alice: round 1 done (strict): validation loss 3.2100, training loss 3.5000, 2 counted, 0 refused, 401.2 kB per worker, 22.4 s, state d1d1d1d1; the shared model writes: KING: The ship is salt, and so am I.
    alice: round 2: step 50 of 100, loss 2.6000, 19.3k/s
    alice: round 2: step 100 of 100, loss 2.4000, 19.3k/s
    alice: round 2: trained for 20.0 s (20.5k/s), mean loss 2.5000
    alice: round 2: sent 300.0 kB in 401.2 kB of events to 1 of 1 relays
    alice: round 2 done (strict): validation loss 2.6100, training loss 2.5000, 2 counted, 0 refused, 401.2 kB per worker, 22.4 s, state d2d2d2d2; the shared model writes: QUEEN: What crown is this?
    alice: done after 2 rounds: loss 4.5600 -> 2.5000, validation loss 2.6100, trained for 40.0 s, waited 4.0 s, sent 812.3 kB, received 1.61 MB, state d2d2d2d2"
  `);
});

const { alice, bob, digestOf } = told;

it.each<[RunEvent, string]>([
  [{ type: 'notice', message: 'training on the built-in play' }, 'training on the built-in play'],
  [
    { type: 'waiting', what: 'workers', round: 0, have: 1, want: 4, missing: [] },
    'round 1: waiting for workers, 1 of 4 here',
  ],
  [
    { type: 'waiting', what: 'gradients', round: 1, have: 1, missing: [bob] },
    'round 2: waiting for gradients, 1 here, missing npub1k2et9v4',
  ],
  [
    {
      type: 'published',
      round: 0,
      payloadBytes: 999,
      eventBytes: 1_234_567,
      relays: [],
      failed: [{ relay: 'wss://relay.example', message: SLOW }],
    },
    `round 1: sent 999 B in 1.23 MB of events to 0 of 1 relays; wss://relay.example ${SLOW}`,
  ],
  [
    { type: 'refused', round: 2, reason: 'bad-signature', detail: 'signature does not verify' },
    'round 3: refused an event (bad-signature): signature does not verify',
  ],
  [
    { type: 'refused', round: 2, worker: bob, reason: 'base-mismatch', detail: 'trained from d9' },
    'round 3: refused an event from npub1k2et9v4 (base-mismatch): trained from d9',
  ],
  [
    told.round(4, { seconds: 135, refused: [{ reason: 'malformed' }], trainingLoss: 0.0001 }),
    'round 5 done (strict): training loss 1.00e-4, 2 counted, 1 refused, 401.2 kB per worker, 2 min 15 s, state d5d5d5d5',
  ],
  [
    {
      type: 'divergence',
      round: 3,
      peer: bob,
      ours: digestOf(3),
      theirs: digestOf(4),
      firstDiffering: alice,
    },
    'DIFFERENT MODELS at the start of round 4: worker npub1k2et9v4 holds d4d4d4d4, yours is d3d3d3d3; the first worker that only one of you counted is npub15xs6rgd',
  ],
  [
    { type: 'failed', code: 'relay/none', message: 'no relay answered', hint: 'check --relay' },
    'FAILED (relay/none): no relay answered; check --relay',
  ],
])('tells $0.type', (event, expected) => {
  expect(renderPlain('alice', event)).toBe(`alice: ${expected}`);
});

it('lets nobody write control characters or line breaks into the log', () => {
  const detail = 'x\u001b[2J\u001b]0;title\u0007\nalice: done\r\u202egnp';
  const line = renderPlain('alice', { type: 'refused', round: 0, reason: 'malformed', detail });
  expect(line).toBe(
    'alice: round 1: refused an event (malformed): x·[2J·]0;title· alice: done··gnp',
  );
});
