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
}

/** How long the chunks of one checkpoint may take. */
const PULL_MS = 120_000;
/** Checkpoints that are tried, the newest first. */
const MOST_TRIED = 3;

/** The state after the newest checkpoint whose outcome is certified and whose chunks come; undefined where there is none. */
export async function fromCheckpoint(
  spec: RunSpec,
  options: Options,
): Promise<CaughtUp | undefined> {
  const run = runIdOf(spec);
  const claims = await claimsOf(run, options);
  if (claims.length === 0) return undefined;
  const states = await certifiedStates(spec, options);
  const sound = claims.filter(({ outcome }) => states.has(outcome)).slice(0, MOST_TRIED);
  for (const { outcome, author } of sound) {
    const { chain, votes } = states.get(outcome)!;
    const bytes = await pullModel(chain.modelRoot, author, options);
    if (bytes === undefined) continue;
    const model = readState(bytes, options.layout);
    return { standing: standingOf({ ...chain, ...model }, votes), ...model };
  }
  return undefined;
}

/** One claim of each outcome, of the latest round first. */
async function claimsOf(
  run: Digest,
  { relays, signal }: Options,
): Promise<readonly CheckpointClaim[]> {
  const claims = new Map<Digest, CheckpointClaim>();
  await collectEvents([checkpointsFilter(run)], { relays, signal }, (event) => {
    const claim = toCheckpointClaim(event, run);
    if (claim) claims.set(claim.outcome, claim);
  });
  return [...claims.values()].sort((a, b) => b.round - a.round);
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
  const { genesis } = options;
  const playing = replay(genesis, await decisionsOf(spec, genesis, options));
  const states = new Map<Digest, After>();
  let before: { readonly digest: Digest; readonly votes: readonly EventId[] } | undefined;
  for (;;) {
    const next = playing.next();
    const chain = next.done ? next.value.state : next.value.before;
    if (before) states.set(before.digest, { chain, votes: before.votes });
    if (next.done) return states;
    const certificate = next.value.decided?.certificate;
    before = certificate && {
      digest: certificate.digest,
      votes: certificate.commits.map(({ id }) => id),
    };
  }
}

async function pullModel(
  root: Digest,
  worker: string,
  { relays, layout, signal }: Options,
): Promise<Uint8Array | undefined> {
  const puller = createPuller({ relays, clock: systemClock, sha256: nativeSha256 });
  try {
    // parameters and momentum, four bytes each
    const { done } = puller.pull({ root, bytes: 8 * layout.size, worker });
    return (await within(done, PULL_MS, systemClock, signal))?.payload;
  } finally {
    puller.close();
  }
}
