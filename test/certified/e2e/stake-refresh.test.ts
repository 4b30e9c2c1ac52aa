/** A run with stake refresh from a chain: all workers switch to the next table in the same round. */

import { fromHex, sha256Hex, toHex } from 'nostrain/base';
import type { RefreshPort } from 'nostrain/certified';
import {
  callData,
  createRegistrySource,
  createTokenSource,
  type Endpoint,
  encodeWords,
  evmAddress,
} from 'nostrain/chain';
import {
  nextSnapshotOf,
  type StakeSnapshot,
  snapshotId,
  snapshotOf,
  stakeOf,
  stakeRows,
} from 'nostrain/run';
import { afterEach, describe, expect, it } from 'vitest';
import { createRefreshPort, publishOver } from '../../../src/cli/shared/stake-refresh.ts';
import { accessTo, anvilMissing, never, startAnvil, type TestChain } from '../../support/anvil.ts';
import {
  certifiedRounds,
  certifiedSpec,
  keyOf,
  rootsOf,
  startCertified,
} from '../../support/certified-swarm.ts';
import { fakeChain } from '../../support/fake-chain.ts';
import { describeWith } from '../../support/needs.ts';
import { historyOf, replayed } from '../../support/replaying.ts';
import { createStage } from '../../support/stage.ts';
import { smallLayout } from '../../support/swarm.ts';
import { testToken } from '../../support/test-token.ts';

const chains: TestChain[] = [];
afterEach(async () => {
  await Promise.all(chains.splice(0).map((chain) => chain.stop()));
});
const { relay, start } = createStage(startCertified);

describeWith(anvilMissing)(
  'a run with stake refresh',
  () => {
    it('names the next table in its round, and draws by it two rounds later; workers without chain access follow', async () => {
      const chain = await startAnvil();
      chains.push(chain);
      const registry = await chain.deploy();
      const bond = (index: number, value: bigint) =>
        chain.bond(registry, index, keyOf(index), value);
      for (const index of [0, 1, 2]) await bond(index, 10n);
      await chain.mine(3);
      const contract = { contract: registry.contract, from: registry.block };
      const schedule = { base: registry.block + 3, period: 5 };
      const source = createRegistrySource(accessTo([chain.endpoint]), contract, schedule);
      const first = await source.snapshot(0, never);
      // the next two tables are at blocks between these, so they differ
      await bond(0, 5n);
      await chain.mine(4);
      await bond(1, 7n);
      await chain.mine(8);
      const tables = await Promise.all([0, 1, 2].map((epoch) => source.snapshot(epoch, never)));
      const ids = tables.map(snapshotId);
      expect(new Set(ids).size).toBe(3);

      const { url } = await relay();
      const stake = { source: 'evm', snapshot: ids[0], period: schedule.period, every: 2 };
      const spec = certifiedSpec({
        ...{ founders: [0, 1, 2], rounds: 6 },
        document: { stake, committee: { weights: 'stake' } },
      });
      await publishOver([url], first, never);
      const shared = createRefreshPort(spec, {}, [url], never);
      expect(shared.derive).toBeUndefined();
      const access = accessTo([chain.endpoint]);
      const port = createRefreshPort(spec, { chain: access }, [url], never);
      // read first, so that no worker proposes while reading
      const read = await Promise.all([1, 2].map((epoch) => port.derive!(epoch, spec.founders)));
      expect(read.map(snapshotId)).toEqual(ids.slice(1));
      const reading: RefreshPort = { ...port, derive: async (epoch) => read[epoch - 1]! };
      const members = [reading, reading, shared].map((refresh, index) =>
        start({ index, relays: [url], spec, refresh, trainMs: 300 }),
      );
      const states = await Promise.all(members.map(({ finished }) => finished));
      const roots = members.map(rootsOf);
      expect(roots[1]).toEqual(roots[0]);
      expect(roots[2]).toEqual(roots[0]);
      const results = certifiedRounds(members[0]!).map(({ certified }) => certified!.result);
      expect(results).toEqual(Array(6).fill('final'));
      // proposers with chain access name the round's table; others keep the current one
      const { rounds } = replayed(spec, smallLayout, await historyOf(url, spec));
      expect(rounds.map(({ checked }) => checked)).toEqual(Array(6).fill('full'));
      const named = rounds.map(({ decided }) => decided!.outcome);
      let holds = ids[0]!;
      for (const { round, proposer, features } of named) {
        const { snapshot } = features.stake!;
        const isDue = round > 0 && round % 2 === 0 && proposer !== keyOf(2);
        if (isDue) holds = ids[round / 2]!;
        expect(snapshot).toBe(holds);
        expect(snapshotOf(rounds[round]!.before.ledger)).toBe(
          named[round - 2]?.features.stake?.snapshot ?? ids[0],
        );
      }
      for (const { head } of states) expect(nextSnapshotOf(head!.ledger)).toBe(holds);
      expect(stakeOf(tables[1]!).get(keyOf(0))).toBe(15n);
      expect(stakeOf(tables[2]!).get(keyOf(1))).toBe(17n);
    });
  },
  { timeout: 120_000 },
);

const PERIOD = 5;

/** Tokens of four workers; the newest block that counts is at least four epochs after `height`. */
async function tokenChain(): Promise<{
  readonly endpoint: Endpoint;
  readonly token: string;
  readonly height: number;
}> {
  if (anvilMissing) {
    const keys = [0, 1, 2, 3].map(keyOf);
    const chain = fakeChain(500, (height, key) => BigInt(height + 10 * keys.indexOf(key)), keys);
    return { endpoint: chain.endpoint('fake'), token: `0x${'11'.repeat(20)}`, height: 100 };
  }
  const chain = await startAnvil();
  chains.push(chain);
  const from = chain.accounts[0]!;
  const data = testToken.bytecode + toHex(encodeWords(0n));
  const { contract } = await chain.send({ from, data });
  const mint = async (index: number, value: bigint) => {
    const account = evmAddress(keyOf(index))!;
    const minted = callData('mint(address,uint256)', account, value);
    return (await chain.send({ from, to: contract!, data: minted })).block;
  };
  for (const index of [0, 1, 2]) await mint(index, 10n);
  const height = await mint(3, 50n);
  // every table differs
  for (let epoch = 1; epoch <= 4; epoch++) {
    await mint(0, BigInt(epoch));
    await chain.mine(PERIOD - 1);
  }
  await chain.mine(3);
  return { endpoint: chain.endpoint, token: contract!, height };
}

describe('a run whose stakes are balances of a token', { timeout: 120_000 }, () => {
  it('reads those of its roster: a newcomer has a seat two rounds after the next table', async () => {
    const { endpoint, token, height } = await tokenChain();
    const access = accessTo([endpoint]);
    const founders = [0, 1, 2].map(keyOf);
    const tableAt = (epoch: number, keys: readonly string[]) => {
      const contract = { standard: 'erc20', token: fromHex(token.slice(2))!, keys } as const;
      const schedule = { base: height, period: PERIOD };
      return createTokenSource(access, contract, schedule).snapshot(epoch, never);
    };
    const first = await tableAt(0, founders);
    expect(first.rows).toHaveLength(3);
    const { url } = await relay();
    const stake = { source: 'evm', snapshot: snapshotId(first), period: PERIOD, every: 2 };
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 13 },
      document: { stake, committee: { weights: 'stake' } },
    });
    await publishOver([url], first, never);
    const port = createRefreshPort(spec, { chain: access }, [url], never);
    const shared = createRefreshPort(spec, {}, [url], never);
    const members = [port, port, port, shared].map((refresh, index) =>
      start({ index, relays: [url], spec, refresh, trainMs: 700 }),
    );
    await Promise.all(members.map(({ finished }) => finished));
    const { rounds } = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(13).fill('full'));
    const named = rounds.map(({ decided }) => decided!.outcome);
    let holds = snapshotId(first);
    let changed = 0;
    for (const { round, features } of named) {
      const { snapshot } = features.stake!;
      const roster = rounds[round]!.before.ledger.members.map(({ key }) => key);
      const isDue = round > 0 && round % 2 === 0;
      // a proposer without endpoints, or one still reading, keeps the current one
      if (isDue && snapshot !== holds) {
        const next = await tableAt(round / 2, [...new Set([...roster, ...founders])]);
        expect(snapshot).toBe(snapshotId(next));
        changed += 1;
        holds = snapshot;
      }
      expect(snapshot).toBe(holds);
    }
    expect(changed).toBeGreaterThan(0);
    const signers = rounds.map(({ decided }) => decided!.certificate.commits.map(({ key }) => key));
    expect(signers.slice(0, 3).flat()).not.toContain(keyOf(3));
    expect(signers.flat()).toContain(keyOf(3));
  });
});

describe('a table too large for an event', { timeout: 120_000 }, () => {
  it('is followed by workers without chain access, from its chunks', async () => {
    const many = Array.from({ length: 1200 }, (_, i) => [sha256Hex(Uint8Array.of(i, i >> 8)), 1n]);
    const tables = [0, 1].map(
      (epoch): StakeSnapshot => ({
        ...{ chain: 'eip155:1', strategy: 'registry', unit: 'wei', height: 100 + epoch * PERIOD },
        ...{ params: '{"contract":"0x00","from":1}', blockHash: 'ab'.repeat(32) },
        rows: stakeRows([
          ...[0, 1, 2].map((index) => [keyOf(index), BigInt(10 + epoch)] as const),
          ...(many as [string, bigint][]),
        ]),
      }),
    );
    const [first, second] = tables.map(snapshotId) as [string, string];
    const { url } = await relay();
    const stake = { source: 'evm', snapshot: first, period: PERIOD, every: 2 };
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 4 },
      document: { stake, committee: { weights: 'stake' } },
    });
    await publishOver([url], tables[0]!, never);
    const shared = createRefreshPort(spec, {}, [url], never);
    const reading: RefreshPort = { ...shared, derive: async (epoch) => tables[epoch]! };
    const members = [reading, reading, shared].map((refresh, index) =>
      start({ index, relays: [url], spec, refresh, trainMs: 300 }),
    );
    const states = await Promise.all(members.map(({ finished }) => finished));
    const { rounds } = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(4).fill('full'));
    const { proposer, features } = rounds[2]!.decided!.outcome;
    const { snapshot } = features.stake!;
    expect(snapshot).toBe(proposer === keyOf(2) ? first : second);
    for (const { head } of states) expect(nextSnapshotOf(head!.ledger)).toBe(snapshot);
  });
});
