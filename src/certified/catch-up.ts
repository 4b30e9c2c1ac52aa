/**
 * Checkpoints: published by members of the committee, taken up by newcomers. A newcomer follows who decided what from the run id on, without
 * payloads, then pulls the chunks of the certified model root from whoever serves them; a chunk proves itself.
 */
import { systemClock } from '../base/clock.ts';
import { sha256 as pureSha256 } from '../base/hash.ts';
import { readState, stateBytes } from '../consensus/state-root.ts';
import { pullOnce } from '../network/attachments/pull.ts';
import {
  type CheckpointClaim,
  checkpointsFilter,
  toCheckpointClaim,
} from '../network/wire/certified-checkpoints.ts';
import type { Control } from '../network/wire/control.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { ledgerBytes } from '../run/ledger.ts';
import type { ListedVotes } from '../run/listed.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import type { Layout } from '../tensor/params.ts';
import type { Decision } from './driven-round.ts';
import type { ProtocolMessage } from './evidence.ts';
import { type Asked, collectEvents, type DecisionOptions, decisionsOf } from './from-relays.ts';
import type { Certified, Chain } from './history.ts';
import { type Path, pathOf } from './path.ts';
import type { Reporter } from './reporter.ts';
import type { ReadyRound } from './round-inputs.ts';

/** A certified state to go on from. */
export interface CaughtUp {
  readonly state: Certified;
  readonly votes: ListedVotes | null;
}

export interface CheckpointOptions extends Asked {
  readonly layout: Layout;
  /** Told which checkpoints are passed over, and why. */
  onNotice?(message: string): void;
}

interface Options extends CheckpointOptions, DecisionOptions {
  /** The state of round 0. */
  readonly genesis: Certified;
  /** The branch through this outcome, where the run forks. */
  readonly through?: Digest | undefined;
}

/** How long the chunks of one checkpoint may take. */
const PULL_MS = 120_000;
/** Checkpoints that are tried, the newest first. */
const MOST_TRIED = 3;
/** Checkpoints that are named when they are passed over: there may be any number of them. */
const MOST_NAMED = 8;

/** The state after the newest checkpoint whose outcome is certified and whose chunks come; undefined where there is none. */
export async function fromCheckpoint(
  spec: RunSpec,
  options: Options,
): Promise<CaughtUp | undefined> {
  const claims = await claimsOf(runIdOf(spec), options);
  if (claims.length === 0) return undefined;
  const { genesis, through, onNotice } = options;
  const { gathered } = await decisionsOf(spec, genesis, options);
  const path = pathOf(genesis, gathered, through);
  for (const { round, followed, other } of path.forks) {
    const words = `${other.slice(0, 8)} is certified too; following ${followed.slice(0, 8)}`;
    onNotice?.(`round ${round + 1}: FORK, ${words}`);
  }
  return newestOf(claims, path, options);
}

/** The same of a branch that is known already. */
export const checkpointOn = async (
  path: Path,
  run: Digest,
  options: CheckpointOptions,
): Promise<CaughtUp | undefined> => newestOf(await claimsOf(run, options), path, options);

/** How many publish a checkpoint: one may be gone before it is out. */
const KEEPERS = 2;

/** Publishes the state for newcomers, every so many rounds; two of the committee do, in the order of its draw. */
export function publishCheckpoint(
  { electorate }: ReadyRound,
  { next }: Decision,
  {
    control,
    reporter,
  }: {
    readonly control: Pick<Control<ProtocolMessage>, 'checkpoint'>;
    readonly reporter: Reporter;
  },
  me: WorkerId,
): void {
  const isDue = next.round % next.spec.checkpoint.every === 0;
  const keepers = electorate.committee.members.slice(0, KEEPERS);
  if (!isDue || !keepers.includes(me)) return;
  const state = {
    ...{ round: next.round - 1, outcome: next.parent, ledgerRoot: next.ledgerRoot },
    ...{ model: stateBytes(next), ledger: ledgerBytes(next.ledger) },
  };
  const failed = () => reporter.unkept(next.round - 1);
  void control.checkpoint(state).then((isKept) => isKept || failed(), failed);
}

async function newestOf(
  claims: readonly CheckpointClaim[],
  { stops }: Path,
  options: CheckpointOptions,
): Promise<CaughtUp | undefined> {
  for (const { author, outcome } of soundOf(claims, stops, options)) {
    const { chain, votes } = stops.get(outcome)!;
    const bytes = await pullModel(chain.modelRoot, author, options);
    if (bytes === undefined) {
      options.onNotice?.(`the chunks of the checkpoint after round ${chain.round} did not come`);
      continue;
    }
    return { state: { ...chain, ...readState(bytes, options.layout) }, votes };
  }
  return undefined;
}

/** Claims that hold against what is certified, one of each outcome; the others are named. */
function soundOf(
  claims: readonly CheckpointClaim[],
  stops: Path['stops'],
  { onNotice }: CheckpointOptions,
): readonly CheckpointClaim[] {
  const sound = new Map<Digest, CheckpointClaim>();
  let passed = 0;
  for (const claim of claims) {
    const why = refuseClaim(claim, stops.get(claim.outcome)?.chain);
    if (why === undefined) sound.set(claim.outcome, sound.get(claim.outcome) ?? claim);
    else if (++passed <= MOST_NAMED) {
      const { author, round } = claim;
      onNotice?.(
        `passed over the checkpoint of ${author.slice(0, 8)} after round ${round + 1}: ${why}`,
      );
    }
  }
  if (passed > MOST_NAMED) onNotice?.(`passed over ${passed - MOST_NAMED} more checkpoints`);
  return [...sound.values()].slice(0, MOST_TRIED);
}

/** Why a checkpoint is not that of a certified outcome; nothing when it is. */
function refuseClaim(
  { round, outcome, modelRoot, ledgerRoot }: CheckpointClaim,
  after: Chain | undefined,
): string | undefined {
  if (after === undefined) return `no quorum certified outcome ${outcome.slice(0, 8)}`;
  if (round !== after.round - 1) return `that outcome is of round ${after.round}`;
  const isSame = modelRoot === after.modelRoot && ledgerRoot === after.ledgerRoot;
  return isSame ? undefined : 'other roots are certified';
}

/** What anybody says, of the latest round first. */
async function claimsOf(
  run: Digest,
  options: CheckpointOptions,
): Promise<readonly CheckpointClaim[]> {
  const claims: CheckpointClaim[] = [];
  await collectEvents([checkpointsFilter(run)], options, (event) => {
    const claim = toCheckpointClaim(event, run);
    if (claim) claims.push(claim);
  });
  return claims.sort((a, b) => b.round - a.round);
}

async function pullModel(
  root: Digest,
  worker: string,
  { relays, layout, signal, clock = systemClock, sha256 = pureSha256 }: CheckpointOptions,
): Promise<Uint8Array | undefined> {
  // parameters and momentum, four bytes each
  const wanted = { root, bytes: 8 * layout.size, worker };
  const limits = { timeoutMs: PULL_MS, signal };
  const pulled = await pullOnce(wanted, { relays, clock, sha256, ...limits });
  return pulled.ok ? pulled.value : undefined;
}
