/** Which members' archived votes are queried. */
import { expect, it } from 'vitest';
import { createArchivedVotesFetcher } from '../../src/certified/rounds/apply-decision.ts';

const AGAIN_MS = 10_000;

async function asked(members: number, times: number): Promise<readonly (readonly string[])[]> {
  const roster = Array.from({ length: members }, (_, i) => `key ${i}`);
  const lists: (readonly string[])[] = [];
  let nowMs = 0;
  const fetchArchivedVotes = async (rounds: readonly { readonly by: readonly string[] }[]) =>
    void lists.push(...rounds.map(({ by }) => by));
  const options = {
    context: { round: 0, roster, committee: { members: ['seated'] } },
    state: { round: 0, before: null },
    ports: { clock: { now: () => nowMs }, control: { fetchArchivedVotes } },
  };
  const search = createArchivedVotesFetcher(options as never, {} as never, () => undefined);
  for (let i = 0; i < times; i++) {
    search.ask();
    while (search.isAsking) await Promise.resolve();
    nowMs += AGAIN_MS;
  }
  return lists;
}

it('queries the committee first, then the whole roster', async () => {
  const [first, second, third] = await asked(3, 3);
  expect(first).toEqual(['seated']);
  expect([second, third]).toEqual([
    ['key 0', 'key 1', 'key 2'],
    ['key 0', 'key 1', 'key 2'],
  ]);
});

it('queries 256 keys of a larger roster at a time, until all have been queried', async () => {
  const [, ...later] = await asked(1000, 6);
  expect(later.map((keys) => keys.length)).toEqual([256, 256, 256, 232, 256]);
  expect(new Set(later.slice(0, 4).flat()).size).toBe(1000);
  expect(later[4]).toEqual(later[0]);
});
