/** Expectations for a run in which nothing was lost. */
import { expect } from 'vitest';
import { divergencesOf, type Member, roundsOf } from './swarm.ts';

/** Every worker counted every worker once in every round, and all hold the same bits. */
export async function expectWhole(members: readonly Member[], rounds: number): Promise<void> {
  const states = await Promise.all(members.map(({ finished }) => finished));
  for (const member of members) {
    const accepted = roundsOf(member).map((round) => [...round.accepted]);
    const all = members.map(({ id }) => id).sort();
    expect(accepted).toEqual(Array.from({ length: rounds }, () => all));
  }
  for (let i = 0; i < rounds; i++) {
    expect(new Set(members.map((member) => roundsOf(member)[i]!.digest)).size).toBe(1);
  }
  expect(members.flatMap(divergencesOf)).toEqual([]);
  expect(new Set(states.map(({ params }) => `${params.values.slice(0, 99)}`)).size).toBe(1);
}
