/**
 * `nostrain demo certified`: seven workers over three relays, one of which lies. One worker is silent, one is killed
 * and restarted, one votes twice, and one sends the opposite of what it learned.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from 'nostrain';
import { createRelay } from 'nostrain/relay';
import type { Untyped } from '../../src/base/shape.ts';
import { createEndpoint, createPost } from '../../src/chain/endpoints.ts';
import type { ChainAccess } from '../../src/chain/evm/blocks.ts';
import { createRegistrySource } from '../../src/chain/evm/stake-sources.ts';
import {
  bondFor,
  type DeployedRegistry,
  deployRegistry,
  type Sender,
  sendTransaction,
  unlockedAccounts,
} from '../../src/chain/registry/registry-calls.ts';
import { publishOver } from '../../src/cli/shared/stake-refresh.ts';
import { findAnvil, startLocalChain } from '../../src/node/net/local-programs.ts';
import { roundName, type WorkerId } from '../../src/run/ids.ts';
import {
  formatStakeJson,
  type StakeSnapshot,
  snapshotId,
  stakeRows,
} from '../../src/run/stake/stake-snapshot.ts';
import { certify, enlist, replayKept, smallGpt } from '../shared/certified.ts';
import { demoText } from '../shared/data.ts';
import { EventLog } from '../shared/document.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import { crew, playCrew, relaysOf } from './crew.ts';
import { type CertifiedDocument, certifiedDocumentOf } from './document.ts';

/** Number of rounds; crew.ts lists what happens in each. */
const ROUNDS = 8;

const specFor = ({ quick = false, seed }: DemoFlags, stake: Untyped) => ({
  rules: {
    stake,
    screening: true,
    scores: true,
    telemetry: true,
    committee: { size: 64, quorum: 'bft', weights: 'stake', minStake: '1' },
    timing: { graceMinMs: 2000, graceMaxMs: 60_000, deadlineC: 4, viewMs: 10_000, recoveryMs: 0 },
  },
  // so few steps teach little: the noise of a trellis code would hide who sends the opposite
  training: {
    ...smallGpt,
    packing: 'int8' as const,
    innerSteps: quick ? 15 : 40,
    rounds: ROUNDS,
    seed,
  },
});

/** Runs the demo. Returns exit code 0 if all honest workers agree, all hostile ones were named, and the run replays. */
export const runCertifiedDemo = (flags: DemoFlags): Promise<number> =>
  onStage(flags, { name: 'certified', workers: crew.map(({ name }) => name) }, async (stage) => {
    const { dir, signal, onNotice, scope } = stage;
    const hands = await Promise.all(crew.map((member) => enlist(member.name, dir)));
    const relays = await startRelays(stage);
    const { file: corpus } = await demoText(stage);
    const stakes = await demoStakes(hands, stage);
    const stakeFile = join(dir, 'stakes.json');
    await writeFile(stakeFile, formatStakeJson(stakes.snapshot));
    const named = { name: 'certified', dir, corpus, relays, onNotice, signal };
    const { spec, file } = await certify(hands, { ...specFor(flags, stakes.rule), ...named });
    await publishOver(relays, stakes.snapshot, signal);
    const log = new EventLog();
    const exits = await playCrew(
      { dir, file, spec, hands, corpus, stakeFile, relays: await relaysOf(hands, relays, scope) },
      {
        onEvent(name, event) {
          log.take(name, event);
          stage.report(name, event);
        },
        onNotice,
        signal,
      },
    );
    signal.throwIfAborted();
    const { archive, eventsFile, report } = await replayKept(spec, relays, stage);
    const cast = crew.map(({ name, attack, flips = false }, i) => ({
      name,
      pubkey: hands[i]!.pubkey,
      hostile: flips || attack?.equivocateFrom !== undefined,
    }));
    const document = certifiedDocumentOf(log, cast, archive.events, {
      replay: { ok: report.ok, rounds: report.rounds },
      eventsFile,
      wallSeconds: stage.wallSeconds(),
    });
    const failed = stage.end(document, exits);
    return printVerdict(document, stage) && !failed ? 0 : 1;
  });

/** Starts two honest relays, and one that forges, forgets and denies events. */
async function startRelays({ scope, onNotice }: Stage): Promise<readonly string[]> {
  const lies = {
    forge: 0.1,
    postdate: 0.1,
    discard: 0.2,
    drop: 0.2,
    falseEose: 0.2,
    duplicate: 0.2,
  };
  const relays = [
    await createRelay(),
    await createRelay({ faults: lies, seed: 1 }),
    await createRelay(),
  ];
  for (const relay of relays) scope.defer(() => relay.close());
  const urls = relays.map(({ url }) => url);
  onNotice(`relays: ${urls.join(', ')}; the second one lies`);
  return urls;
}

function printVerdict(document: CertifiedDocument, { say }: Stage): boolean {
  const { agreed, rounds, faults, replay, workers, eventsFile, wallSeconds } = document;
  const isNamed = workers.every(
    ({ name, hostile }) => !hostile || faults.some(({ worker }) => worker === name),
  );
  for (const { kind, worker, round } of faults) say(`${worker}: ${kind} in ${roundName(round)}`);
  const root = `${rounds.at(-1)?.root.slice(0, 16)}…`;
  const seconds = wallSeconds.toFixed(0);
  say(
    agreed
      ? `all honest workers have one root, ${root}, after ${rounds.length} rounds, ${seconds} s`
      : 'the honest workers do NOT agree',
  );
  say(
    replay.ok
      ? `the run replays: nostrain replay --events ${eventsFile}`
      : `the run does NOT replay from ${eventsFile}`,
  );
  return agreed && isNamed && replay.ok;
}

interface DemoStakes {
  readonly snapshot: StakeSnapshot;
  /** Field `stake` of the spec. */
  readonly rule: Untyped;
}

/** Stakes of 1.0, 1.1, 1.2 ... ether, so that no worker has much more than the others. */
const STAKE = 10n ** 17n;

/** Returns the stakes, from a local chain or, if anvil is not installed, from a file. */
async function demoStakes(
  workers: readonly { readonly pubkey: WorkerId }[],
  { scope, signal, onNotice }: Pick<Stage, 'scope' | 'signal' | 'onNotice'>,
): Promise<DemoStakes> {
  const stakes = new Map(workers.map(({ pubkey }, i) => [pubkey, STAKE * BigInt(10 + i)] as const));
  const chain = await startStakedChain(stakes, signal);
  if (chain === undefined) {
    onNotice('anvil is not installed: the stakes come from a file');
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

interface StakedChain {
  readonly url: string;
  readonly registry: DeployedRegistry;
  /** Proved stakes at a final block after the last bond. */
  readonly snapshot: StakeSnapshot;
  stop(): Promise<void>;
}

/** Chain id of anvil. */
const CHAIN = 'eip155:31337';
const UNBONDING_SECONDS = 3600n;
/** Number of blocks until a block is final, set by the flag below. */
const FINALITY = 2;

/** Bonds a stake for every key and proves the table; undefined if anvil is not installed. */
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
    const contract = { contract: registry.contract, from: registry.block };
    const source = createRegistrySource(access, contract, { base: block, period: 0 });
    return { url, registry, stop, snapshot: await source.snapshot(0, signal) };
  } catch (error) {
    await stop();
    throw error;
  }
}
