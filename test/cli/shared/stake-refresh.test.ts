/** The next table of a token's balances: the same bytes for all workers with endpoints, from the certified roster. */
import { writeFile } from 'node:fs/promises';
import {
  formatStakeJson,
  keyListHash,
  type StakeSnapshot,
  snapshotId,
  stakeParams,
  stakeRows,
  successorOf,
} from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { sourceOf } from '../../../src/chain/stake-documents.ts';
import { createRefreshPort, readStakeFile } from '../../../src/cli/shared/stake-refresh.ts';
import { accessTo, never } from '../../support/anvil.ts';
import { certifiedSpec } from '../../support/certified-run.ts';
import { fakeChain } from '../../support/fake-chain.ts';
import { signerOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const inFolder = temporaryFolder();
const [ALICE, BOB, CAROL, DAVE] = [1, 2, 3, 4].map((number) => signerOf(number).publicKey) as [
  string,
  string,
  string,
  string,
];
const all = [ALICE, BOB, CAROL, DAVE];
const PERIOD = 30;

/** Everybody has their number of tokens, and one more every block; Dave has none before block 120. */
const balanceAt = (height: number, key: string): bigint =>
  key === DAVE && height < 120 ? 0n : BigInt(all.indexOf(key) + 1 + height);

async function setUp(strategy: 'erc20' | 'erc5805') {
  const chain = fakeChain(400, balanceAt, all);
  const first: StakeSnapshot = {
    ...{ chain: 'eip155:31337', strategy, height: 100, blockHash: 'ab'.repeat(32) },
    params: stakeParams({ token: `0x${'11'.repeat(20)}`, keys: keyListHash([ALICE, BOB]) }),
    unit: strategy === 'erc20' ? 'token' : 'votes',
    rows: stakeRows([
      [ALICE, balanceAt(100, ALICE)],
      [BOB, balanceAt(100, BOB)],
    ]),
  };
  const file = inFolder(`${strategy}.json`);
  await writeFile(file, formatStakeJson(first));
  const stake = { source: 'evm', snapshot: snapshotId(first), period: PERIOD, every: 2 };
  const spec = certifiedSpec({ stake });
  const given = await readStakeFile(file);
  const portTo = (endpoints: Parameters<typeof accessTo>[0], need?: number) =>
    createRefreshPort(spec, { given, chain: accessTo(endpoints, need) }, [], never);
  return { chain, first, portTo };
}

describe.each(['erc20', 'erc5805'] as const)('the next table of %s', (strategy) => {
  test('is that of the roster and the first table, at the block of its epoch, whoever reads it', async () => {
    const { chain, first, portTo } = await setUp(strategy);
    const one = portTo([chain.endpoint('a'), chain.endpoint('b')]);
    const other = portTo([chain.endpoint('c')]);
    const roster = [CAROL, DAVE, ALICE];
    for (const epoch of [1, 2]) {
      const table = await one.derive!(epoch, roster);
      expect(table).toEqual(await other.derive!(epoch, [...roster].reverse()));
      const height = 100 + PERIOD * epoch;
      expect(table).toMatchObject({ strategy, height, unit: first.unit });
      expect(table.params).toBe(successorOf(first, height, roster).params);
      expect(table.rows).toEqual(stakeRows(all.map((key) => [key, balanceAt(height, key)])));
    }
    const smaller = await one.derive!(1, [ALICE]);
    expect(smaller.rows.map(({ key }) => key)).toEqual([ALICE, BOB].sort());
    expect(snapshotId(smaller)).not.toBe(snapshotId(await one.derive!(1, roster)));
  });

  test('can be derived again by whoever has the list of its keys', async () => {
    const { chain, portTo } = await setUp(strategy);
    const endpoint = chain.endpoint('a');
    const table = await portTo([endpoint]).derive!(1, [CAROL]);
    const again = sourceOf(table, { access: accessTo([endpoint]), keys: [ALICE, BOB, CAROL] });
    expect(await again.snapshot(0, never)).toEqual(table);
  });

  test('is not there before its block is final, nor where endpoints say different things', async () => {
    const { chain, portTo } = await setUp(strategy);
    const liar = chain.endpoint('liar', (balance, key) => (key === CAROL ? 10n ** 9n : balance));
    const unsure = portTo([chain.endpoint('a'), liar], 2);
    await expect(unsure.derive!(1, [CAROL])).rejects.toMatchObject({ code: 'chain/disagree' });
    const outvoted = portTo([chain.endpoint('a'), liar, chain.endpoint('b')], 2);
    expect((await outvoted.derive!(1, [CAROL])).rows).toHaveLength(3);
    chain.final = 129;
    const early = portTo([chain.endpoint('a')]);
    await expect(early.derive!(1, [CAROL])).rejects.toMatchObject({ code: 'chain/not-final' });
  });
});
