import { fromHex, toHex } from 'nostrain/base';
import {
  callData,
  createTokenSource,
  type Endpoint,
  encodeWords,
  evmAddress,
} from 'nostrain/chain';
import { createSigner } from 'nostrain/network';
import { stakeRows } from 'nostrain/run';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TokenContract } from '../../../src/chain/evm/token-source.ts';
import {
  accessTo,
  anvilMissing,
  never,
  startAnvil,
  startLying,
  type TestChain,
} from '../../support/anvil.ts';
import { describeWith } from '../../support/needs.ts';
import { testToken } from '../../support/test-token.ts';

const keyOf = (secret: number) =>
  createSigner(fromHex(String(secret).padStart(64, '0'))!).publicKey;
const [ALICE, BOB, CAROL] = [keyOf(1), keyOf(2), keyOf(3)] as [string, string, string];

describeWith(anvilMissing)('balances of a token', () => {
  let chain: TestChain;
  /** Tokens whose clock counts blocks, and seconds. */
  let tokens: readonly Uint8Array[];
  let height: number;

  const at = (
    contract: Partial<TokenContract>,
    all: readonly Endpoint[] = [chain.endpoint],
    base = height,
  ) => {
    const whole: TokenContract = {
      standard: 'erc20',
      token: tokens[0]!,
      keys: [CAROL, ALICE, BOB],
      ...contract,
    };
    return createTokenSource(accessTo(all), whole, { base, period: 1 }).snapshot(0, never);
  };

  beforeAll(async () => {
    chain = await startAnvil('--prune-history', '64');
    const from = chain.accounts[0]!;
    const addresses: string[] = [];
    for (const seconds of [0n, 1n]) {
      const data = testToken.bytecode + toHex(encodeWords(seconds));
      addresses.push((await chain.send({ from, data })).contract!);
    }
    tokens = addresses.map((each) => fromHex(each.slice(2))!);
    const mint = async (key: string, value: bigint) => {
      const data = callData('mint(address,uint256)', evmAddress(key)!, value);
      let block = 0;
      for (const to of addresses) ({ block } = await chain.send({ from, to, data }));
      return block;
    };
    await mint(ALICE, 3n);
    height = await mint(BOB, 10n ** 24n);
    // within a second the clock of the second token would stand still
    await chain.call('evm_increaseTime', '0xa');
    await mint(ALICE, 100n);
    await mint(CAROL, 5n);
    await chain.mine(2);
  });
  afterAll(() => chain.stop());

  test('are those at the block, of the accounts of the keys', async () => {
    const called = await at({});
    expect(called).toMatchObject({ strategy: 'erc20', height, unit: 'token' });
    expect(called.rows).toEqual(
      stakeRows([
        [ALICE, 3n],
        [BOB, 10n ** 24n],
      ]),
    );
    expect((await at({ balanceSlot: 1 })).rows).toEqual(called.rows);
    expect((await at({ balanceSlot: 7 })).rows).toEqual([]);
  });

  test('past votes are asked by the clock of the token', async () => {
    for (const token of tokens) {
      const votes = await at({ standard: 'erc5805', token });
      expect(votes).toMatchObject({ strategy: 'erc5805', height, unit: 'votes' });
      expect(votes.rows).toEqual(
        stakeRows([
          [ALICE, 3n],
          [BOB, 10n ** 24n],
        ]),
      );
    }
  });

  test('the order of the keys does not matter, the keys do', async () => {
    const [one, two, three] = await Promise.all([
      at({ keys: [ALICE, BOB, CAROL] }),
      at({ keys: [BOB, CAROL, ALICE, ALICE] }),
      at({ keys: [ALICE, BOB] }),
    ]);
    expect(two).toEqual(one);
    expect(three.rows).toEqual(one.rows);
    expect(three.params).not.toBe(one.params);
    await expect(async () => at({ keys: ['05'.padStart(64, '0')] })).rejects.toMatchObject({
      code: 'chain/key',
    });
  });

  test('a lie about a balance is a disagreement, or proves nothing', async () => {
    const liar = await startLying(chain.url, ({ method }, result) =>
      method === 'eth_call'
        ? `0x${'ff'.padStart(64, '0')}`
        : method === 'eth_getProof'
          ? { ...(result as object), storageProof: [] }
          : result,
    );
    const both = [liar.endpoint, chain.endpoint];
    await expect(at({}, both)).rejects.toMatchObject({ code: 'chain/disagree' });
    const proved = await at({ balanceSlot: 1 }, both);
    expect(proved.rows).toHaveLength(2);
    await expect(at({ balanceSlot: 1 }, [liar.endpoint])).rejects.toMatchObject({
      code: 'chain/unproved',
    });
    liar.server.close();
  });

  test('what is no such token is refused', async () => {
    const nobody = new Uint8Array(20).fill(9);
    await expect(at({ token: nobody })).rejects.toThrow(/does not return an integer/);
    await expect(at({ token: nobody, balanceSlot: 1 })).rejects.toThrow(/no such account/);
    await expect(at({ token: nobody, standard: 'erc5805' })).rejects.toMatchObject({
      code: 'chain/clock',
    });
  });

  test('a node that forgot the block answers for past votes only', async () => {
    await chain.mine(200);
    await expect(at({})).rejects.toMatchObject({ code: 'chain/too-few' });
    expect((await at({ standard: 'erc5805' })).rows).toHaveLength(2);
  });
});
