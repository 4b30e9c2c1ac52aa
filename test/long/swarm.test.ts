import { createRelay } from 'nostrain/relay';
import { describe, expect, it } from 'vitest';
import { divergencesOf, roundsOf, startMember } from '../support/swarm.ts';

describe('a swarm over a slow and disorderly relay', () => {
  it('N-07: 20 rounds with up to 2 s of delay and 10 % duplicates: one state after each', async () => {
    const delay = { shape: 'uniform', minMs: 0, maxMs: 2000 } as const;
    const relay = await createRelay({ seed: 11, faults: { duplicate: 0.1, reorder: 0.3, delay } });
    const rounds = 20;
    const plan = { rounds, sync: { strategy: 'strict', workers: 4 }, waitFor: 4 } as const;
    const members = [0, 1, 2, 3].map((index) => startMember({ index, relays: [relay.url], plan }));
    await Promise.all(members.map(({ finished }) => finished));
    for (let i = 0; i < rounds; i++) {
      expect(new Set(members.map((member) => roundsOf(member)[i]!.digest)).size).toBe(1);
      expect(roundsOf(members[0]!)[i]!.accepted).toHaveLength(4);
    }
    expect(members.flatMap(divergencesOf)).toEqual([]);
    await relay.close();
  });
});
