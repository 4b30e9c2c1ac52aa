/**
 * How a newcomer skips the past of a certified run: it follows who decided what from the run id on, without any payload, and takes the
 * state after the newest checkpoint from whoever serves chunks of the certified root. Nobody who says anything is believed.
 */
import { systemClock } from '../base/clock.ts';
import { readState } from '../consensus/state-root.ts';
import { within } from '../network/transport/deadline.ts';
import {
  type CheckpointClaim,
  checkpointsFilter,
  toCheckpointClaim,
} from '../network/wire/certified-checkpoints.ts';
import { createPuller } from '../network/wire/puller.ts';
import { nativeSha256 } from '../node/native-sha256.ts';
import type { Digest, EventId } from '../run/ids.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import type { Layout, Params, Vector } from '../tensor/params.ts';
import type { Certified, Chain } from '../worker/certified/history.ts';
import { replay } from '../worker/certified/replay.ts';
import { type Standing, standingOf } from '../worker/certified/standing.ts';
import { type DecisionOptions, decisionsOf } from './history/decisions.ts';
import { collectEvents } from './history/from-relays.ts';

/** A certified state to go on from. */
export interface CaughtUp {
  readonly standing: Standing;
  readonly params: Params;
  readonly momentum: Vector;
}

interface Options extends DecisionOptions {
  readonly layout: Layout;
  /** The state of round 0. */
  readonly genesis: Certified;
  /** Told which checkpoints are passed over, and why. */
  onNotice?(message: string): void;
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
  const run = runIdOf(spec);
  const claims = await claimsOf(run, options);
  if (claims.length === 0) return undefined;
  const states = await certifiedStates(spec, options);
  for (const { author, outcome } of soundOf(claims, states, options)) {
    const { chain, votes } = states.get(outcome)!;
    const bytes = await pullModel(chain.modelRoot, author, options);
    if (bytes === undefined) {
      options.onNotice?.(`the chunks of the checkpoint after round ${chain.round} did not come`);
      continue;
    }
    const model = readState(bytes, options.layout);
    return { standing: standingOf({ ...chain, ...model }, votes), ...model };
  }
  return undefined;
}

/** Claims that hold against what is certified, one of each outcome; the others are named. */
function soundOf(
  claims: readonly CheckpointClaim[],
  states: ReadonlyMap<Digest, After>,
  { onNotice }: Options,
): readonly CheckpointClaim[] {
  const sound = new Map<Digest, CheckpointClaim>();
  let passed = 0;
  for (const claim of claims) {
    const why = refuseClaim(claim, states.get(claim.outcome)?.chain);
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
async function claimsOf(run: Digest, options: Options): Promise<readonly CheckpointClaim[]> {
  const claims: CheckpointClaim[] = [];
  await collectEvents([checkpointsFilter(run)], options, (event) => {
    const claim = toCheckpointClaim(event, run);
    if (claim) claims.push(claim);
  });
  return claims.sort((a, b) => b.round - a.round);
}

interface After {
  readonly chain: Chain;
  readonly votes: readonly EventId[];
}

/** What each certified outcome led to, the model apart. */
async function certifiedStates(
  spec: RunSpec,
  options: Options,
): Promise<ReadonlyMap<Digest, After>> {
  const { genesis, onNotice } = options;
  const playing = replay(genesis, await decisionsOf(spec, genesis, options));
  const states = new Map<Digest, After>();
  let before: { readonly digest: Digest; readonly votes: readonly EventId[] } | undefined;
  for (;;) {
    const next = playing.next();
    const chain = next.done ? next.value.state : next.value.before;
    if (before) states.set(before.digest, { chain, votes: before.votes });
    if (next.done) return states;
    const certificate = next.value.decided?.certificate;
    for (const fork of next.value.forks) {
      const words = `${fork.slice(0, 8)} is certified too; following ${certificate?.digest.slice(0, 8)}`;
      onNotice?.(`round ${next.value.round + 1}: FORK, ${words}`);
    }
    before = certificate && {
      digest: certificate.digest,
      votes: certificate.commits.map(({ id }) => id),
    };
  }
}

async function pullModel(
  root: Digest,
  worker: string,
  { relays, layout, signal, clock = systemClock }: Options,
): Promise<Uint8Array | undefined> {
  const puller = createPuller({ relays, clock, sha256: nativeSha256 });
  try {
    // parameters and momentum, four bytes each
    const { done } = puller.pull({ root, bytes: 8 * layout.size, worker });
    return (await within(done, PULL_MS, clock, signal))?.payload;
  } finally {
    puller.close();
  }
}
