/** Stakes for the demo: bonded in a registry on a chain of this machine, or made up where no chain can run here. */
import type { Scope } from '../../../base/scope.ts';
import type { WorkerId } from '../../../run/ids.ts';
import type { Untyped } from '../../../run/read-spec.ts';
import { type StakeSnapshot, snapshotId, stakeRows } from '../../../run/stake-snapshot.ts';
import { startStakedChain } from '../staked-chain.ts';

export interface DemoStakes {
  readonly snapshot: StakeSnapshot;
  /** What the spec says of them. */
  readonly rule: Untyped;
}

/** 1.0, 1.1, 1.2 ... ether: nobody has much more than the others. */
const STAKE = 10n ** 17n;

export async function demoStakes(
  workers: readonly { readonly pubkey: WorkerId }[],
  {
    scope,
    signal,
    onNotice,
  }: { readonly scope: Scope; readonly signal: AbortSignal; onNotice(message: string): void },
): Promise<DemoStakes> {
  const stakes = new Map(workers.map(({ pubkey }, i) => [pubkey, STAKE * BigInt(10 + i)] as const));
  const chain = await startStakedChain(stakes, signal);
  if (chain === undefined) {
    onNotice('no anvil for this machine: the stakes come from a file');
    return fromFile(stakes);
  }
  scope.defer(() => chain.stop());
  const { snapshot } = chain;
  onNotice(`stakes: a registry on a local chain at ${chain.url}, block ${snapshot.height}`);
  const rule = { source: 'evm', snapshot: snapshotId(snapshot), period: 1, every: 0 };
  return { snapshot, rule };
}

function fromFile(stakes: ReadonlyMap<WorkerId, bigint>): DemoStakes {
  const snapshot: StakeSnapshot = {
    ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', unit: 'wei' },
    ...{ height: 0, blockHash: '0'.repeat(64), rows: stakeRows(stakes) },
  };
  return { snapshot, rule: { source: 'file', snapshot: snapshotId(snapshot) } };
}
