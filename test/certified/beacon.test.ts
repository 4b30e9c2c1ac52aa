/** Certified rounds whose draws wait for drand: nobody begins a round before its signature is there, and all use the same one. */
import { afterEach, describe, expect, it } from 'vitest';
import { createDrandSource } from '../../src/chain/drand-source.ts';
import { createGet } from '../../src/chain/endpoints.ts';
import { beaconValue, drandRoundAt } from '../../src/consensus/committee/beacon.ts';
import { certifiedRounds, certifiedSpec, startCertified } from '../support/certified-swarm.ts';
import { type DrandEndpoint, signRound, startDrand, testChain } from '../support/drand.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const endpoints: DrandEndpoint[] = [];
afterEach(async () => {
  for (const each of endpoints.splice(0)) await each.close();
});
const stage = createTimedStage(startCertified);
const { relay, start } = stage;

describe('a run with a beacon', () => {
  it('waits for the value after each outcome, and ends in one root', async () => {
    const { url } = relay();
    const genesis = Math.floor(stage.clock.now() / 1000) - 1000;
    const rules = { kind: 'drand', lagSeconds: 4, ...testChain(genesis, 1) } as const;
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2, document: { beacon: rules } },
      timing: { skewMs: 1900 },
    });
    let isServed = false;
    const drand = await startDrand((round) =>
      isServed ? JSON.stringify({ round, signature: signRound(round) }) : undefined,
    );
    endpoints.push(drand);
    const source = createDrandSource(rules, {
      ...{ urls: [drand.url], get: createGet(fetch), clock: stage.clock, timeoutMs: 5000 },
    });
    const beacon = async (time: number): Promise<string> => {
      const value = beaconValue(
        rules,
        time,
        await source.after(time, new AbortController().signal),
      );
      if (value.ok) return value.value;
      throw new Error(value.issue.message);
    };
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec, beacon }));
    const waits = () =>
      members[0]!.events.some(
        (event) => event.type === 'notice' && event.message.includes('waits for its beacon'),
      );
    while (!waits()) await stage.clock.sleep(20);
    expect(certifiedRounds(members[0]!)).toHaveLength(1);
    isServed = true;
    const states = await Promise.all(members.map(({ finished }) => finished));
    for (const { head } of states) {
      const { before } = head!;
      expect(before!.ledger.entropy).toBe(states[0]!.head!.before!.ledger.entropy);
      expect(head!.modelRoot).toBe(states[0]!.head!.modelRoot);
      expect(head!.ledger.entropy).toBeNull();
    }
    // everybody asked for the round that the certified time names
    const [asked] = drand.asked;
    expect(asked).toBeGreaterThan(drandRoundAt(rules, genesis + 1000));
    expect(new Set(drand.asked).size).toBe(1);
  });
});
