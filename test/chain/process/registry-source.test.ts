import {
  createRegistrySource,
  type DeployedRegistry,
  type Endpoint,
  requestExit,
  withdraw,
} from 'nostrain/chain';
import { decodeSnapshot, snapshotBytes, stakeRows } from 'nostrain/run';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import {
  accessTo,
  anvilMissing,
  type LyingEndpoint,
  never,
  startAnvil,
  startLying,
  type TestChain,
} from '../../support/anvil.ts';
import { describeWith } from '../../support/needs.ts';

const [ALICE, BOB, CAROL] = ['aa', 'bb', 'cc'].map((part) => part.repeat(32)) as [
  string,
  string,
  string,
];

describeWith(anvilMissing)('the registry of a real chain', () => {
  let chain: TestChain;
  let registry: DeployedRegistry;
  let height: number;
  const proxies: LyingEndpoint[] = [];

  /** An endpoint that alters answers. */
  const liar = async (alter: Parameters<typeof startLying>[1]): Promise<Endpoint> => {
    const proxy = await startLying(chain.url, alter);
    proxies.push(proxy);
    return proxy.endpoint;
  };
  const at = (epoch: number, all: readonly Endpoint[] = [chain.endpoint], need = 1) => {
    const contract = { contract: registry.contract, from: registry.block };
    const schedule = { base: height, period: 1 };
    return createRegistrySource(accessTo(all, need), contract, schedule).snapshot(epoch, never);
  };

  beforeAll(async () => {
    chain = await startAnvil();
    registry = await chain.deploy();
    await chain.bond(registry, 0, BOB, 5n);
    await chain.bond(registry, 1, ALICE, 7n);
    await chain.bond(registry, 2, BOB, 10n ** 18n);
    height = registry.block + 3;
    await chain.bond(registry, 0, CAROL, 9n);
    await chain.send(requestExit(registry, chain.accounts[0]!, BOB));
    await chain.mine(2);
  });
  afterEach(() => {
    for (const { server } of proxies.splice(0)) server.close();
  });
  afterAll(() => chain.stop());

  test('is read at a block of the past, whatever came later', async () => {
    const snapshot = await at(0);
    const bob = 5n + 10n ** 18n;
    expect(snapshot).toMatchObject({ chain: 'eip155:31337', strategy: 'registry', height });
    expect(snapshot.rows).toEqual(
      stakeRows([
        [ALICE, 7n],
        [BOB, bob],
      ]),
    );
    const block = await chain.call('eth_getBlockByNumber', `0x${height.toString(16)}`, false);
    expect(`0x${snapshot.blockHash}`).toBe((block as { hash: string }).hash);
    expect(decodeSnapshot(snapshotBytes(snapshot))).toEqual({ ok: true, value: snapshot });
  });

  test('an exit takes the weight away at once', async () => {
    expect((await at(1)).rows).toEqual(
      stakeRows([
        [ALICE, 7n],
        [BOB, 5n + 10n ** 18n],
        [CAROL, 9n],
      ]),
    );
    expect((await at(2)).rows).toEqual(
      stakeRows([
        [ALICE, 7n],
        [BOB, 10n ** 18n],
        [CAROL, 9n],
      ]),
    );
  });

  test('before the contract there is nobody', async () => {
    expect((await at(-4)).rows).toEqual([]);
  });

  test('a block that is not final is waited for', async () => {
    await expect(at(3)).rejects.toMatchObject({ code: 'chain/not-final' });
    await chain.mine(1);
    expect((await at(3)).height).toBe(height + 3);
  });

  test('one of three endpoints may lie about the header, two may not', async () => {
    const forged = { timestamp: '0x1' };
    const alter = ({ method }: { method: string }, result: unknown) =>
      method === 'eth_getBlockByNumber' ? { ...(result as object), ...forged } : result;
    const [one, two] = [await liar(alter), await liar(alter)];
    expect((await at(0, [one, chain.endpoint, chain.endpoint], 2)).rows).toHaveLength(2);
    await expect(at(0, [one, two, chain.endpoint], 2)).rejects.toThrow(/header hashes to/);
  });
  test('an omitted log is noticed, and another endpoint asked', async () => {
    const omitting = await liar(({ method }, result) =>
      method === 'eth_getLogs' ? (result as unknown[]).slice(1) : result,
    );
    const last = await liar(({ method }, result) =>
      method === 'eth_getLogs' ? (result as unknown[]).slice(0, -1) : result,
    );
    await expect(at(0, [omitting])).rejects.toThrow(/change 2 instead of 1/);
    await expect(at(0, [last])).rejects.toThrow(/only 4 of 5 changes were returned/);
    expect((await at(0, [omitting, last, chain.endpoint])).rows).toHaveLength(2);
  });
  test('an altered stake does not hash to what the contract stores', async () => {
    const generous = await liar(({ method }, result) => {
      if (method !== 'eth_getLogs') return result;
      const [first, ...rest] = result as { data: string }[];
      return [{ ...first, data: first!.data.replace(/5$/, '6') }, ...rest];
    });
    await expect(at(0, [generous])).rejects.toThrow(/do not hash to what the contract stores/);
  });
  test('an altered proof does not lead to the state root', async () => {
    const forging = await liar(({ method }, result) => {
      if (method !== 'eth_getProof') return result;
      const { storageProof, ...rest } = result as { storageProof: { proof: string[] }[] };
      const proof = storageProof.map(({ proof }) => ({
        proof: proof.map((node) => node.replace(/..$/, '00')),
      }));
      return { ...rest, storageProof: proof };
    });
    await expect(at(0, [forging])).rejects.toMatchObject({ code: 'chain/unproved' });
    const silent = await liar(({ method }, result) => (method === 'eth_getProof' ? {} : result));
    await expect(at(0, [silent])).rejects.toThrow(/there is no account proof/);
  });
  test('ranges shrink until the endpoint serves them', async () => {
    let refused = 0;
    const narrow = await liar(({ method, params }, result) => {
      if (method !== 'eth_getLogs') return result;
      const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
      if (Number(toBlock) - Number(fromBlock) < 2) return result;
      refused++;
      return null;
    });
    expect((await at(0, [narrow])).rows).toHaveLength(2);
    expect(refused).toBeGreaterThan(0);
    const mute = await liar(({ method }, result) => (method === 'eth_getLogs' ? null : result));
    await expect(at(0, [mute])).rejects.toThrow(/more than 10000 results/);
  });
  test('another chain, or too few endpoints, is refused', async () => {
    const other = await liar(({ method }, result) => (method === 'eth_chainId' ? '0x1' : result));
    await expect(at(0, [other])).rejects.toMatchObject({ code: 'chain/wrong-chain' });
    await expect(async () => at(0, [chain.endpoint], 2)).rejects.toMatchObject({
      code: 'chain/endpoints',
    });
  });
  test('coin unlocks after the delay, for who funded it', async () => {
    const funder = chain.accounts[0]!;
    await expect(chain.send(withdraw(registry, funder, BOB))).rejects.toThrow();
    await chain.call('evm_increaseTime', '0xe11');
    await expect(chain.send(withdraw(registry, chain.accounts[3]!, BOB))).rejects.toThrow();
    await chain.send(withdraw(registry, funder, BOB));
    await expect(chain.send(withdraw(registry, funder, BOB))).rejects.toThrow();
    await expect(chain.send(requestExit(registry, funder, BOB))).rejects.toThrow();
  });
});
