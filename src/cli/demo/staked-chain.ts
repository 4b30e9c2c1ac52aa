/** For demos: a chain on this machine with a registry in which the demo's workers have stakes, where anvil is installed. */
import { systemClock } from '../../base/clock.ts';
import type { ChainAccess } from '../../chain/evm/blocks.ts';
import { createRegistrySource } from '../../chain/evm/registry-source.ts';
import { createPost } from '../../chain/http-post.ts';
import { createEndpoint } from '../../chain/json-rpc.ts';
import {
  bondFor,
  type DeployedRegistry,
  deployRegistry,
  type Sender,
  sendTransaction,
  unlockedAccounts,
} from '../../chain/registry/registry-calls.ts';
import { findAnvil, startLocalChain } from '../../node/local-chain.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { StakeSnapshot } from '../../run/stake-snapshot.ts';

export interface StakedChain {
  readonly url: string;
  readonly registry: DeployedRegistry;
  /** Proved, at a final block after the last bond. */
  readonly snapshot: StakeSnapshot;
  stop(): Promise<void>;
}

/** What npm's anvil calls itself. */
const CHAIN = 'eip155:31337';
const UNBONDING_SECONDS = 3600n;
/** Blocks until one is final, as the flag below makes it. */
const FINALITY = 2;

/** Bonds every key's stake and proves the table; undefined where there is no anvil for this machine. */
export async function startStakedChain(
  stakes: ReadonlyMap<WorkerId, bigint>,
  signal: AbortSignal,
): Promise<StakedChain | undefined> {
  const program = findAnvil();
  if (program === undefined) return undefined;
  const { url, stop } = await startLocalChain(program, ['--slots-in-an-epoch', '1']);
  try {
    const post = createPost(fetch);
    const endpoint = createEndpoint(url, { post, clock: systemClock, timeoutMs: 10_000 });
    const sender: Sender = { endpoint, clock: systemClock, signal };
    const [funder] = await unlockedAccounts(sender);
    const registry = await deployRegistry(sender, funder!, UNBONDING_SECONDS);
    let { block } = registry;
    for (const [key, stake] of stakes) {
      ({ block } = await sendTransaction(sender, bondFor(registry, funder!, key, stake)));
    }
    await endpoint.call('anvil_mine', [`0x${FINALITY.toString(16)}`], signal);
    const access: ChainAccess = {
      ...{ chain: CHAIN, endpoints: { all: [endpoint], need: 1 }, clock: systemClock },
      ...{ waitMs: 10_000, pollMs: 100 },
    };
    const place = { contract: registry.contract, from: registry.block };
    const source = createRegistrySource(access, place, { base: block, period: 0 });
    return { url, registry, stop, snapshot: await source.snapshot(0, signal) };
  } catch (error) {
    await stop();
    throw error;
  }
}
