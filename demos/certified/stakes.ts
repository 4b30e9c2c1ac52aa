/** Stakes of the demo's workers: bonded in a registry on a chain of this machine (anvil), or from a file where none can run here. */
import { systemClock } from '../../src/base/async.ts';
import { createEndpoint, createPost } from '../../src/chain/endpoints.ts';
import type { ChainAccess } from '../../src/chain/evm/blocks.ts';
import { createRegistrySource } from '../../src/chain/evm/registry-source.ts';
import {
  bondFor,
  type DeployedRegistry,
  deployRegistry,
  type Sender,
  sendTransaction,
  unlockedAccounts,
} from '../../src/chain/registry/registry-calls.ts';
import { findAnvil, startLocalChain } from '../../src/node/net/local-programs.ts';
import type { WorkerId } from '../../src/run/ids.ts';
import type { Untyped } from '../../src/run/spec/spec-readers.ts';
import { type StakeSnapshot, snapshotId, stakeRows } from '../../src/run/stake/stake-snapshot.ts';
import type { Stage } from '../shared/stage.ts';

export interface DemoStakes {
  readonly snapshot: StakeSnapshot;
  /** What the spec says of them. */
  readonly rule: Untyped;
}

/** 1.0, 1.1, 1.2 ... ether: nobody has much more than the others. */
const STAKE = 10n ** 17n;

/** Without anvil for this machine, the stakes come from a file. */
export async function demoStakes(
  workers: readonly { readonly pubkey: WorkerId }[],
  { scope, signal, onNotice }: Pick<Stage, 'scope' | 'signal' | 'onNotice'>,
): Promise<DemoStakes> {
  const stakes = new Map(workers.map(({ pubkey }, i) => [pubkey, STAKE * BigInt(10 + i)] as const));
  const chain = await startStakedChain(stakes, signal);
  if (chain === undefined) {
    onNotice('no anvil for this machine: the stakes come from a file');
    const snapshot: StakeSnapshot = {
      chain: 'nostrain:file',
      strategy: 'file',
      params: '{}',
      unit: 'wei',
      height: 0,
      blockHash: '0'.repeat(64),
      rows: stakeRows(stakes),
    };
    return { snapshot, rule: { source: 'file', snapshot: snapshotId(snapshot) } };
  }
  scope.defer(() => chain.stop());
  const { snapshot } = chain;
  onNotice(`stakes: a registry on a local chain at ${chain.url}, block ${snapshot.height}`);
  const rule = { source: 'evm', snapshot: snapshotId(snapshot), period: 1, every: 0 };
  return { snapshot, rule };
}

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
      chain: CHAIN,
      endpoints: { all: [endpoint], need: 1 },
      clock: systemClock,
      waitMs: 10_000,
      pollMs: 100,
    };
    const place = { contract: registry.contract, from: registry.block };
    const source = createRegistrySource(access, place, { base: block, period: 0 });
    return { url, registry, stop, snapshot: await source.snapshot(0, signal) };
  } catch (error) {
    await stop();
    throw error;
  }
}
