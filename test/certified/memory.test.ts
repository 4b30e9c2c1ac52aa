/** Memory of a worker: its data about rounds, events and peers does not grow with the number of rounds played. */
import { expect, it } from 'vitest';
import { KeyWatch } from '../../src/certified/rounds/journal.ts';
import { simulate } from '../bench/simulate/play.ts';
import { watchCollections } from '../support/watch-collections.ts';

/** The maximum of each count over some rounds. */
function mostOf(rounds: readonly ReadonlyMap<string, number>[]): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  for (const sizes of rounds) {
    for (const [place, size] of sizes) most.set(place, Math.max(size, most.get(place) ?? 0));
  }
  return most;
}

// anything that grows per round would more than double
it('holds as many entries after thirty rounds as after twelve', { timeout: 180_000 }, async () => {
  const rounds: ReadonlyMap<string, number>[] = [];
  const watched = watchCollections();
  try {
    const played = await simulate({
      ...{ workers: 2, founders: 1024, relays: 1, copies: 0, rounds: 32, seed: 1, params: 64 },
      ...{ dialects: ['strfry'], limits: {}, loss: 0, deadlineC: 4, churn: 0, document: {} },
      // entries kept for minutes cover several rounds
      trainSeconds: [80, 90],
      sharesChecks: false,
      onRound: ({ round }) => round % 2 === 0 && rounds.push(watched.sizes()),
    });
    expect(played.failures).toEqual([]);
  } finally {
    watched.restore();
  }
  const [early, late] = [mostOf(rounds.slice(4, 7)), mostOf(rounds.slice(-3))];
  expect(early.size).toBeGreaterThan(20);
  const grown = [...late].filter(([place, size]) => size > 8 + 1.5 * (early.get(place) ?? 0));
  expect(grown).toEqual([]);
});

it('uses a single promise in all rounds to wait for a conflicting use of its key', () => {
  const watch = new KeyWatch(
    '1'.repeat(64),
    () => undefined,
    () => false,
  );
  expect(watch.conflict).toBe(watch.conflict);
});
