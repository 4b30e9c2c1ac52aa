import { systemClock } from 'nostrain/base';
import { createGet } from 'nostrain/chain';
import { beaconValue } from 'nostrain/consensus';
import { afterEach, describe, expect, it } from 'vitest';
import { createDrandSource } from '../../src/chain/drand-source.ts';
import { drandRandomness } from '../../src/consensus/committee/beacon.ts';
import { type DrandEndpoint, signRound, startDrand, testChain } from '../support/drand.ts';
import { createManualClock } from '../support/manual-clock.ts';

const GENESIS = 1_600_000_000;
const rules = { kind: 'drand', lagSeconds: 10, ...testChain(GENESIS, 3) } as const;
const { signal } = new AbortController();
const endpoints: DrandEndpoint[] = [];
afterEach(async () => {
  for (const each of endpoints.splice(0)) await each.close();
});

async function start(...args: Parameters<typeof startDrand>): Promise<DrandEndpoint> {
  const endpoint = await startDrand(...args);
  endpoints.push(endpoint);
  return endpoint;
}

const sourceAt = (urls: readonly string[], clock = systemClock) =>
  createDrandSource(rules, { urls, get: createGet(fetch), clock, timeoutMs: 5000 });

describe('drand over HTTP', () => {
  it('is asked for the first round after the outcome and the lag, and proves itself', async () => {
    const endpoint = await start();
    const proof = await sourceAt([endpoint.url]).after(GENESIS + 90, signal);
    // 100 s are 33 periods and a bit: round 35 is at 102 s
    expect(endpoint.asked).toEqual([35]);
    expect(proof).toEqual({ signature: signRound(35) });
    const value = beaconValue(rules, GENESIS + 90, proof);
    expect(value).toEqual(drandRandomness(rules, 35, signRound(35)));
    expect(value.ok).toBe(true);
  });

  it('whoever lies, has nothing or is gone is passed over', async () => {
    const liars = [
      await start((round) => JSON.stringify({ round, signature: signRound(round + 1) })),
      await start(() => undefined),
      await start(() => '{"signature":17}'),
      await start(() => 'no JSON'),
    ];
    const honest = await start();
    const urls = [...liars.map(({ url }) => url), 'http://127.0.0.1:9', honest.url];
    expect(await sourceAt(urls).after(GENESIS, signal)).toEqual({ signature: signRound(5) });
    await expect(sourceAt(urls.slice(0, -1)).after(GENESIS, signal)).rejects.toMatchObject({
      code: 'chain/unproved',
    });
  });

  it('nobody is asked before the round is due', async () => {
    const endpoint = await start();
    const clock = createManualClock(1000 * GENESIS);
    const found = sourceAt([endpoint.url], clock).after(GENESIS, signal);
    await clock.advance(11_000);
    expect(endpoint.asked).toEqual([]);
    await clock.advance(1000);
    expect(await found).toEqual({ signature: signRound(5) });
  });

  it('a key that is no point of the group is refused at once', () => {
    const access = { urls: [], get: createGet(fetch), clock: systemClock, timeoutMs: 1 };
    const zero = `c0${'00'.repeat(95)}`;
    for (const publicKey of ['ab'.repeat(96), zero, 'ff'.repeat(48)]) {
      expect(() => createDrandSource({ ...rules, publicKey }, access)).toThrow(
        'is not a valid key',
      );
    }
  });
});
