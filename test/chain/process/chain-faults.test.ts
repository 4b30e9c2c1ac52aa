import { createRegistrySource, type DeployedRegistry } from 'nostrain/chain';
import { snapshotId, stakeRows } from 'nostrain/run';
import { afterEach, expect, test, vi } from 'vitest';
import { blockId, headerAt, waitFinal } from '../../../src/chain/evm/blocks.ts';
import {
  accessTo,
  anvilMissing,
  endpointAt,
  never,
  startAnvil,
  startLying,
  type TestChain,
} from '../../support/anvil.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { describeWith } from '../../support/needs.ts';

const ALICE = 'aa'.repeat(32);

describeWith(anvilMissing)('a chain that misbehaves', () => {
  const chains: TestChain[] = [];
  const start = async (...flags: readonly string[]) => {
    const chain = await startAnvil(...flags);
    chains.push(chain);
    return chain;
  };
  const table = (access: ReturnType<typeof accessTo>, registry: DeployedRegistry, base: number) =>
    createRegistrySource(
      access,
      { contract: registry.contract, from: registry.block },
      { base, period: 1 },
    ).snapshot(0, never);

  afterEach(async () => {
    await Promise.all(chains.splice(0).map((chain) => chain.stop()));
  });

  test('a reorganized block: the snapshot of the final one stays, the state of the other is not served', async () => {
    const chain = await start();
    const registry = await chain.deploy();
    await chain.bond(registry, 0, ALICE, 5n);
    await chain.mine(2);
    const access = accessTo([chain.endpoint]);
    const before = snapshotId(await table(access, registry, 2));
    const head = await headerAt(access, 4, never);
    await chain.call('anvil_reorg', 2, []);
    const reorganized = await headerAt(access, 4, never);
    expect(reorganized.hash).not.toBe(head.hash);
    const slot = `0x${'00'.repeat(32)}`;
    const proof = (id: object) =>
      chain.call('eth_getProof', `0x${Buffer.from(registry.contract).toString('hex')}`, [slot], id);
    await expect(proof(blockId(head))).rejects.toMatchObject({ code: 'chain/refused' });
    await expect(proof(blockId(reorganized))).resolves.toBeDefined();
    expect(snapshotId(await table(access, registry, 2))).toBe(before);
  });

  test('finality lags as far as the chain says', async () => {
    // 64 blocks by default
    const chain = await start('--slots-in-an-epoch', '32');
    const access = accessTo([chain.endpoint]);
    await chain.mine(70);
    expect(await waitFinal(access, 6, never)).toBe(6);
    await expect(waitFinal(access, 7, never)).rejects.toMatchObject({ code: 'chain/not-final' });
  });

  test('waiting for a final block goes on until it is', async () => {
    const chain = await start();
    const clock = createManualClock();
    const access = { ...accessTo([chain.endpoint], 1, clock), waitMs: 60_000, pollMs: 1000 };
    const waiting = waitFinal(access, 1, never);
    await vi.waitFor(() => expect(clock.pending).toBe(1), 10_000);
    await chain.mine(3);
    await clock.advance(1000);
    expect(await waiting).toBe(1);
  });

  test('a node that forgot the state still proves the table of an old block', async () => {
    const chain = await start('--prune-history', '16');
    const registry = await chain.deploy();
    await chain.bond(registry, 0, ALICE, 5n);
    const height = registry.block + 1;
    await chain.bond(registry, 0, ALICE, 6n);
    await chain.mine(60);
    const access = accessTo([chain.endpoint]);
    const header = await headerAt(access, height, never);
    const old = chain.call('eth_getBalance', chain.accounts[0], blockId(header));
    await expect(old).rejects.toMatchObject({ code: 'chain/refused' });
    expect((await table(access, registry, height)).rows).toEqual(stakeRows([[ALICE, 5n]]));
  });

  test('endpoints of two chains that disagree are named with what they say', async () => {
    const [one, two] = [
      await start('--timestamp', '1700000000'),
      await start('--timestamp', '1700000001'),
    ];
    await Promise.all([one.mine(4), two.mine(4)]);
    const both = accessTo([one.endpoint, two.endpoint], 2);
    await expect(headerAt(both, 1, never)).rejects.toMatchObject({ code: 'chain/disagree' });
    // one of each is enough for nobody: both groups reach it
    const either = accessTo([one.endpoint, two.endpoint], 1);
    await expect(headerAt(either, 1, never)).rejects.toMatchObject({ code: 'chain/disagree' });
    const majority = accessTo([one.endpoint, endpointAt(one.url), two.endpoint], 2);
    const { hash } = await headerAt(majority, 1, never);
    const block = (await one.call('eth_getBlockByNumber', '0x1', false)) as { hash: string };
    expect(`0x${hash}`).toBe(block.hash);
  });

  test('a header that is forged and hashed anew is outvoted; another height is not taken', async () => {
    const chain = await start();
    await chain.mine(4);
    const other = await start('--timestamp', '1600000000');
    await other.mine(4);
    const swap = await startLying(other.url, (_, result) => result);
    const later = await startLying(chain.url, ({ method, params }, result) =>
      method === 'eth_getBlockByNumber' && params[0] === '0x1' ? second : result,
    );
    const second = await chain.call('eth_getBlockByNumber', '0x2', false);
    const access = accessTo(
      [swap.endpoint, later.endpoint, chain.endpoint, endpointAt(chain.url)],
      2,
    );
    expect((await headerAt(access, 1, never)).number).toBe(1);
    await expect(headerAt(accessTo([later.endpoint]), 1, never)).rejects.toThrow(
      /returned block 2 instead of 1/,
    );
    for (const { server } of [swap, later]) server.close();
  });

  test('an endpoint that does not answer, or with too much, is no answer', async () => {
    const chain = await start();
    await chain.mine(3);
    const dead = endpointAt('http://127.0.0.1:1');
    const huge = await startLying(chain.url, () => 'x'.repeat(1024 * 1024));
    const odd = await startLying(chain.url, () => ({ number: 7 }));
    const access = accessTo([dead, huge.endpoint, odd.endpoint, chain.endpoint], 1);
    expect((await headerAt(access, 1, never)).number).toBe(1);
    await expect(headerAt(accessTo([dead]), 1, never)).rejects.toMatchObject({
      code: 'chain/too-few',
    });
    await expect(headerAt(accessTo([huge.endpoint]), 1, never)).rejects.toThrow(
      /larger than 1048576 bytes/,
    );
    for (const { server } of [huge, odd]) server.close();
  });
});
