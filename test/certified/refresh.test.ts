/**
 * Stake refresh: when an outcome may name a new table, what a worker with chain access refuses, and what one without
 * can check.
 */

import type { RefreshPort, RunEvent } from 'nostrain/certified';
import { type Chain, createEvidenceStore, createReporter } from 'nostrain/certified/parts';
import {
  keyListHash,
  type RunSpec,
  type StakeSnapshot,
  snapshotId,
  stakeParams,
} from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { Refresh } from '../../src/certified/features/stakes.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';

const keys = [1, 2, 3, 4].map((number) => signerOf(number).publicKey).sort();
const table = (height: number, stake = 10n, more: Partial<StakeSnapshot> = {}): StakeSnapshot => ({
  ...{ chain: 'eip155:1', strategy: 'registry', params: '{"contract":"0x00","from":1}', height },
  ...{
    blockHash: 'ab'.repeat(32),
    unit: 'wei',
    rows: keys.map((key) => ({ key, stake })),
    ...more,
  },
});
const first = table(100);
const second = table(130, 11n);
const stake = { source: 'evm', snapshot: snapshotId(first), period: 30, every: 2 };
const spec: RunSpec = certifiedSpec({ stake });
const { state } = generateRun([], spec);
/** The state before a round. */
const chainAt = (round: number): Chain => ({
  ...state,
  round,
  ledger: {
    ...state.ledger,
    round,
    features: { stake: { snapshot: snapshotId(first), next: snapshotId(first) } },
  },
});
const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

function refreshWith(
  more: Partial<RefreshPort>,
  documents: readonly StakeSnapshot[] = [first],
  of: RunSpec = spec,
) {
  const published: StakeSnapshot[] = [];
  const events: RunEvent[] = [];
  const pool = createEvidenceStore();
  const port: RefreshPort = {
    async find(id) {
      const found = documents.find((each) => snapshotId(each) === id);
      if (found === undefined) throw new Error('nobody has it');
      return found;
    },
    publish: async (snapshot) => void published.push(snapshot),
    ...more,
  };
  const tell = createReporter((event) => void events.push(event));
  return {
    refresh: new Refresh(of, port, { evidence: pool, reporter: tell }),
    published,
    events,
    pool,
  };
}

describe('the next table of stakes', () => {
  it('is offered in its round only, as read from the chain, and published once', async () => {
    const { refresh, published, pool } = refreshWith({ derive: async () => second });
    for (const round of [0, 1, 3]) {
      refresh.begin(chainAt(round));
      await settle();
      expect(refresh.offer(chainAt(round))).toBe(snapshotId(first));
    }
    refresh.begin(chainAt(2));
    expect(refresh.offer(chainAt(2))).toBe(snapshotId(first));
    await settle();
    expect(refresh.offer(chainAt(2))).toBe(snapshotId(second));
    expect(refresh.offer(chainAt(2))).toBe(snapshotId(second));
    expect(published).toEqual([second]);
    expect(pool.stakes(snapshotId(second))?.get(keys[0]!)).toBe(11n);
  });

  it('with a chain: any table but the one read there is refused, except the current one', async () => {
    const { refresh } = refreshWith({ derive: async () => second });
    const chain = chainAt(2);
    refresh.begin(chain);
    expect(refresh.judge(chain, snapshotId(second))).toBe('wait');
    expect(refresh.judge(chain, snapshotId(first))).toBe('good');
    await settle();
    expect(refresh.judge(chain, snapshotId(second))).toBe('good');
    expect(refresh.judge(chain, snapshotId(table(130, 12n)))).toBe('bad');
    expect(refresh.judge(chain, '')).toBe('bad');
    expect(refresh.judge(chain, snapshotId(first))).toBe('good');
  });

  it('if the chain does not answer, the current table stays, and this is reported', async () => {
    const { refresh, events } = refreshWith({
      derive: () => Promise.reject(new Error('no answer')),
    });
    const chain = chainAt(2);
    refresh.begin(chain);
    await settle();
    expect(refresh.offer(chain)).toBe(snapshotId(first));
    expect(refresh.judge(chain, snapshotId(second))).toBe('bad');
    expect(events).toMatchObject([
      { type: 'notice', message: expect.stringContaining('no answer') },
    ]);
  });

  it('without a chain: it must have the same source and the next block, and leave a member eligible', async () => {
    const wrong = [
      table(131, 11n),
      table(130, 11n, { chain: 'eip155:5' }),
      table(130, 11n, { params: '{"contract":"0x01","from":1}' }),
      table(130, 11n, { rows: [] }),
    ];
    const { refresh } = refreshWith({}, [first, second, ...wrong]);
    const chain = chainAt(2);
    expect(refresh.judge(chain, snapshotId(second))).toBe('wait');
    await settle();
    expect(refresh.judge(chain, snapshotId(second))).toBe('good');
    for (const each of wrong) {
      refresh.judge(chain, snapshotId(each));
      await settle();
      expect(refresh.judge(chain, snapshotId(each))).toBe('bad');
    }
    expect(refresh.judge(chain, 'cd'.repeat(32))).toBe('wait');
    expect(refresh.judge(chainAt(3), snapshotId(second))).toBe('bad');
  });

  it('of a token: it covers the roster of the round, is read again on a fork, and is checked by its form', async () => {
    const rosters: (readonly string[])[] = [];
    const { refresh } = refreshWith({
      derive: async (_, roster) => {
        rosters.push(roster);
        return table(130, BigInt(10 + roster.length));
      },
    });
    const chain = chainAt(2);
    const members = chain.ledger.members.slice(1);
    const fork = { ...chain, parent: 'ef'.repeat(32), ledger: { ...chain.ledger, members } };
    for (const each of [chain, chain, fork]) refresh.begin(each);
    await settle();
    expect(rosters).toEqual([keys, keys.slice(1)]);
    expect(refresh.offer(chain)).toBe(snapshotId(table(130, 14n)));
    expect(refresh.offer(fork)).toBe(snapshotId(table(130, 13n)));
    expect(refresh.judge(fork, snapshotId(table(130, 14n)))).toBe('bad');
  });

  it('of a token, without a chain: it has exactly the keys that follow from the roster and the first table', async () => {
    const params = (listed: readonly string[]) =>
      stakeParams({ token: `0x${'11'.repeat(20)}`, keys: keyListHash(listed) });
    const token = { strategy: 'erc20', unit: 'token' };
    const founding = table(100, 10n, {
      ...{ ...token, params: params(keys.slice(0, 1)), rows: [{ key: keys[0]!, stake: 10n }] },
    });
    const tokenSpec = certifiedSpec({ stake: { ...stake, snapshot: snapshotId(founding) } });
    const good = table(130, 11n, { ...token, params: params(keys) });
    const stranger = { key: 'ff'.repeat(32), stake: 1n };
    const wrong = [
      table(130, 11n, { ...token, params: params(keys.slice(1)) }),
      table(130, 11n, { ...token, params: params(keys), rows: [...good.rows, stranger] }),
      table(130, 11n, { ...token, params: founding.params }),
    ];
    const { refresh } = refreshWith({}, [founding, good, ...wrong], tokenSpec);
    const chain = { ...chainAt(2), spec: tokenSpec };
    const judge = async (each: StakeSnapshot, at: Chain = chain) => {
      refresh.judge(at, snapshotId(each));
      await settle();
      return refresh.judge(at, snapshotId(each));
    };
    expect(await judge(good)).toBe('good');
    for (const each of wrong) expect(await judge(each)).toBe('bad');
    // another roster gives another list of keys; keys in the first table stay in it
    const without = (key: string): Chain => ({
      ...chain,
      ledger: { ...chain.ledger, members: chain.ledger.members.filter((each) => each.key !== key) },
    });
    expect(await judge(good, without(keys[0]!))).toBe('good');
    expect(await judge(good, without(keys[1]!))).toBe('bad');
  });

  it('a table that does not fit in a document counts as unreadable', async () => {
    const { refresh, events } = refreshWith({ derive: async () => table(130, 2n ** 128n) });
    const chain = chainAt(2);
    refresh.begin(chain);
    await settle();
    expect(refresh.offer(chain)).toBe(snapshotId(first));
    expect(events).toMatchObject([
      { type: 'notice', message: expect.stringContaining('not from 1 to 2^128 - 1') },
    ]);
  });
});
