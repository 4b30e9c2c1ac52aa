/**
 * Checkpoints, taken up by newcomers and archives. A newcomer follows who decided what from the run id on, without
 * payloads, then pulls the chunks of the certified model root from whoever serves them; a chunk proves itself.
 */

import { systemClock } from '../base/clock.ts';
import { sha256 as pureSha256 } from '../base/hash.ts';
import { readState } from '../consensus/state-root.ts';
import { heapChunks } from '../network/attachments/chunk-heap.ts';
import { pullOnce } from '../network/attachments/pull.ts';
import type { SignedEvent } from '../network/event.ts';
import {
  type CheckpointClaim,
  checkpointsFilter,
  toCheckpointClaim,
} from '../network/wire/certified-checkpoints.ts';
import type { Digest } from '../run/ids.ts';
import type { ListedVotes } from '../run/listed.ts';
import { roundName } from '../run/round-name.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import type { Layout } from '../tensor/params.ts';
import {
  type Asked,
  collectChunks,
  collectEvents,
  type DecisionOptions,
  decisionsOf,
} from './from-relays.ts';
import { BYTES_PER_PARAMETER } from './gather.ts';
import type { Certified, Chain } from './history.ts';
import { type Path, pathOf } from './path.ts';

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
    onNotice?.(`${roundName(round)}: FORK, ${words}`);
  }
  return newestOf(claims, path, options);
}

/** The same of a branch that is known already. */
export const checkpointOn = async (
  path: Path,
  run: Digest,
  options: CheckpointOptions,
): Promise<CaughtUp | undefined> => newestOf(await claimsOf(run, options), path, options);

async function newestOf(
  claims: readonly CheckpointClaim[],
  { stops }: Path,
  options: CheckpointOptions,
): Promise<CaughtUp | undefined> {
  for (const { author, outcome } of soundOf(claims, stops, options)) {
    const { chain, votes } = stops.get(outcome)!;
    const bytes = await pullModel(chain.modelRoot, author, options);
    if (bytes === undefined) {
      options.onNotice?.(
        `the chunks of the checkpoint after ${roundName(chain.round - 1)} did not come`,
      );
      continue;
    }
    return { state: { ...chain, ...readState(bytes, options.layout) }, votes };
  }
  return undefined;
}

/** Chunks of the newest certified state that relays have all of: for an archive that lacks payloads. Empty where there is none. */
export async function checkpointChunks(
  path: Path,
  run: Digest,
  { layout, ...asked }: CheckpointOptions,
): Promise<readonly SignedEvent[]> {
  const bytes = BYTES_PER_PARAMETER * layout.size;
  for (const { modelRoot: root } of soundOf(await claimsOf(run, asked), path.stops, asked)) {
    const found: SignedEvent[] = [];
    await collectChunks([root], asked, (event) => found.push(event));
    // anybody may serve chunks: one of each is enough
    const chunks = new Map(found.map((event) => [event.content, event]));
    if (heapChunks(chunks.values(), bytes)({ root, bytes })) return [...chunks.values()];
  }
  return [];
}

/** Claims that hold against what is certified, one of each outcome; the others are named. */
function soundOf(
  claims: readonly CheckpointClaim[],
  stops: Path['stops'],
  { onNotice }: Pick<CheckpointOptions, 'onNotice'>,
): readonly CheckpointClaim[] {
  const sound = new Map<Digest, CheckpointClaim>();
  let passed = 0;
  for (const claim of claims) {
    const why = refuseClaim(claim, stops.get(claim.outcome)?.chain);
    if (why === undefined) sound.set(claim.outcome, sound.get(claim.outcome) ?? claim);
    else if (++passed <= MOST_NAMED) {
      const { author, round } = claim;
      onNotice?.(
        `passed over the checkpoint of ${author.slice(0, 8)} after ${roundName(round)}: ${why}`,
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
  if (round !== after.round - 1) return `that outcome is of ${roundName(after.round - 1)}`;
  const isSame = modelRoot === after.modelRoot && ledgerRoot === after.ledgerRoot;
  return isSame ? undefined : 'other roots are certified';
}

/** What anybody says, of the latest round first. */
async function claimsOf(run: Digest, options: Asked): Promise<readonly CheckpointClaim[]> {
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
  const wanted = { root, bytes: BYTES_PER_PARAMETER * layout.size, worker };
  const limits = { timeoutMs: PULL_MS, signal };
  const pulled = await pullOnce(wanted, { relays, clock, sha256, ...limits });
  return pulled.ok ? pulled.value : undefined;
}
