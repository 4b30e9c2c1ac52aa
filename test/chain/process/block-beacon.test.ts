import { afterEach, expect, test } from 'vitest';
import { createBlockBeacon } from '../../../src/chain/evm/blocks.ts';
import {
  accessTo,
  anvilMissing,
  never,
  startAnvil,
  startLying,
  type TestChain,
} from '../../support/anvil.ts';
import { describeWith } from '../../support/needs.ts';

const START = 1_700_000_000;

describeWith(anvilMissing)('a beacon of blocks', () => {
  const chains: TestChain[] = [];
  const servers: { close(): void }[] = [];
  afterEach(async () => {
    for (const server of servers.splice(0)) server.close();
    await Promise.all(chains.splice(0).map((chain) => chain.stop()));
  });

  /** Blocks 1 to 40 every ten seconds; the last two are not final. */
  async function start(): Promise<TestChain> {
    const chain = await startAnvil('--timestamp', String(START));
    chains.push(chain);
    await chain.call('anvil_mine', '0x28', '0xa');
    return chain;
  }

  async function hashOf(chain: TestChain, height: number): Promise<string> {
    const block = await chain.call('eth_getBlockByNumber', `0x${height.toString(16)}`, false);
    return (block as { readonly hash: string }).hash.slice(2);
  }

  async function timeOf(chain: TestChain, height: number): Promise<number> {
    const block = await chain.call('eth_getBlockByNumber', `0x${height.toString(16)}`, false);
    return Number((block as { readonly timestamp: string }).timestamp);
  }

  test('the first block at or after the outcome and the lag counts, whatever is asked around it', async () => {
    const chain = await start();
    const beacon = createBlockBeacon(accessTo([chain.endpoint]), 100);
    for (const height of [1, 2, 17, 37, 38]) {
      const at = await timeOf(chain, height);
      const proof = { block: await hashOf(chain, height), height };
      expect(await beacon.after(at - 100, never)).toEqual(proof);
      expect(await beacon.after(at - 101, never)).toEqual(proof);
      const before = (await timeOf(chain, height - 1)) - 100 + 1;
      expect(await beacon.after(before, never)).toEqual(proof);
    }
  });

  test('a block that is not final yet is waited for', async () => {
    const chain = await start();
    const beacon = createBlockBeacon(accessTo([chain.endpoint]), 100);
    const at = await timeOf(chain, 39);
    await expect(beacon.after(at - 100, never)).rejects.toMatchObject({ code: 'chain/not-final' });
    await chain.mine(1);
    expect(await beacon.after(at - 100, never)).toMatchObject({ height: 39 });
  });

  test('one endpoint of three cannot make up a block; another chain is refused', async () => {
    const chain = await start();
    const other = await startAnvil('--timestamp', String(START + 5));
    chains.push(other);
    await other.call('anvil_mine', '0x28', '0xa');
    const liar = await startLying(other.url, (_, result) => result);
    servers.push(liar.server);
    const at = await timeOf(chain, 20);
    const three = accessTo([liar.endpoint, chain.endpoint, chain.endpoint], 2);
    const beacon = createBlockBeacon(three, 100);
    expect(await beacon.after(at - 100, never)).toMatchObject({ block: await hashOf(chain, 20) });
    const two = createBlockBeacon(accessTo([liar.endpoint, chain.endpoint], 2), 100);
    await expect(two.after(at - 100, never)).rejects.toMatchObject({ code: 'chain/disagree' });
    const elsewhere = createBlockBeacon({ ...three, chain: 'eip155:1' }, 100);
    await expect(elsewhere.after(at - 100, never)).rejects.toMatchObject({
      code: 'chain/wrong-chain',
    });
  });
});
