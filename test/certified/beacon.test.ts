/**
 * Certified rounds whose draws wait for drand: no worker begins a round before its signature is available, and all use
 * the same one.
 */

import { createGet } from 'nostrain/chain';
import { beaconValue, drandRoundAt } from 'nostrain/consensus';
import { describe, expect, it } from 'vitest';
import { createDrandSource } from '../../src/chain/drand-source.ts';
import { certifiedRounds, certifiedSpec, startCertified } from '../support/certified-swarm.ts';
import { signRound, testChain } from '../support/drand.ts';
import { createTimedStage } from '../support/timed-stage.ts';

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
    const asked: number[] = [];
    const get = createGet(async (url) => {
      const round = Number(String(url).split('/').at(-1));
      asked.push(round);
      const answer = JSON.stringify({ round, signature: signRound(round) });
      return isServed ? new Response(answer) : new Response('not found', { status: 404 });
    });
    const source = createDrandSource(rules, {
      ...{ urls: ['https://drand.test/chain'], get, clock: stage.clock, timeoutMs: 5000 },
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
    await stage.until(waits);
    expect(certifiedRounds(members[0]!)).toHaveLength(1);
    isServed = true;
    const states = await Promise.all(members.map(({ finished }) => finished));
    for (const { head } of states) {
      const { before } = head!;
      expect(before!.ledger.entropy).toBe(states[0]!.head!.before!.ledger.entropy);
      expect(head!.modelRoot).toBe(states[0]!.head!.modelRoot);
      expect(head!.ledger.entropy).toBeNull();
    }
    // every worker requested the drand round that the certified time selects
    expect(asked[0]).toBeGreaterThan(drandRoundAt(rules, genesis + 1000));
    expect(new Set(asked).size).toBe(1);
  });
});
