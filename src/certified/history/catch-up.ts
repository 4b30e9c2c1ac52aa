/**
 * Catches up from relays: finds the newest certified checkpoint and downloads its chunks. Trusts only the certified
 * root, against which each chunk is checked. Also returns the committee of a round.
 */

import { systemClock } from '../../base/async.ts';
import { ConfigError, wordsOf } from '../../base/errors.ts';
import { sha256 as pureSha256 } from '../../base/hash.ts';
import { Attachments } from '../../network/attachments/attachments.ts';
import { heapChunks, isPayload, type PayloadRoot } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Committee } from '../../run/committee.ts';
import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import type { ListedVotes } from '../../run/listed.ts';
import { featureSet } from '../../run/spec/features.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { shortName } from '../../run/worker-names.ts';
import type { Layout } from '../../tensor/params.ts';
import {
  type Certified,
  type Chain,
  electorateOf,
  openingOf,
  stakesOf,
  withEntropy,
} from '../decisions/chain.ts';
import type { Ruling } from '../decisions/evidence.ts';
import { type Path, pathOf, replay } from '../decisions/replay.ts';
import { payloadsOf, readSlices } from '../decisions/slices.ts';
import {
  type CheckpointClaim,
  checkpointsFilter,
  manifestsOf,
  toCheckpointClaim,
} from '../wire/checkpoints.ts';
import { collectChunks, collectEvents, type ReadOptions } from './from-relays.ts';
import { decisionsOf } from './history.ts';

export interface CaughtUp {
  readonly state: Certified;
  readonly votes: ListedVotes | null;
}

interface Options extends ReadOptions {
  readonly genesis: Certified;
  /** Follows the branch that contains this outcome, if the run forks. */
  readonly through?: Digest | undefined;
}

/**
 * Time without a chunk after which a download fails. Relays that accept five events a minute deliver one in twelve
 * seconds.
 */
const IDLE_MS = 120_000;
/** Time for relays to report that they have no checkpoint. */
const PATIENCE_MS = 60_000;
/** Maximum checkpoints tried, newest first. */
const MOST_TRIED = 3;
/** Maximum skipped checkpoints reported by name: there may be any number of them. */
const MOST_NAMED = 8;
/** Maximum claims kept per checkpoint. */
const MOST_CLAIMS = 64;
/** Maximum claims kept per checkpoint after which claims of strangers are ignored. */
const MOST_STRANGERS = 8;

/** Returns the state of the newest certified checkpoint whose chunks arrive; undefined if none is available. */
export async function fromCheckpoint(
  spec: RunSpec,
  options: Options,
): Promise<CaughtUp | undefined> {
  if (!(await isClaimed(spec, options))) return undefined;
  const { genesis, through, onNotice } = options;
  const { gathered } = await decisionsOf(spec, genesis, options);
  const path = pathOf(genesis, gathered, through);
  for (const { round, followed, other } of path.forks) {
    const words = `${other.slice(0, 8)} is certified too; following ${followed.slice(0, 8)}`;
    onNotice?.(`${roundName(round)}: FORK, ${words}`);
  }
  return checkpointOn(path, spec, genesis.params.layout, options);
}

export async function checkpointOn(
  { stops }: Path,
  spec: RunSpec,
  layout: Layout,
  options: ReadOptions,
): Promise<CaughtUp | undefined> {
  for (const claims of await soundClaims(spec, stops, options)) {
    const [{ author, outcome }] = claims;
    const { chain, votes } = stops.get(outcome)!;
    const slices = await fetchSlices(chain, claims, author, layout, options);
    if (slices === undefined) {
      options.onNotice?.(
        `the chunks of the checkpoint after ${roundName(chain.round - 1)} did not arrive`,
      );
      continue;
    }
    return { state: { ...chain, ...readSlices(slices, layout) }, votes };
  }
  return undefined;
}

/** Downloads a certified model; a worker of a small tier downloads only its slices. */
async function fetchSlices(
  chain: Chain,
  claims: Claims,
  author: WorkerId,
  layout: Layout,
  options: ReadOptions,
): Promise<readonly Uint8Array[] | undefined> {
  const whole = await fetchModel(chain, claims, layout, options);
  if (whole) return [whole];
  const slices: Uint8Array[] = [];
  for (const payload of payloadsOf(chain, layout)) {
    const bytes = await pullModel(payload, author, options);
    if (bytes === undefined) return undefined;
    slices.push(bytes);
  }
  return slices;
}

/**
 * Returns the chunks of the newest certified state that relays have completely, for an archive; empty if they have no
 * complete one.
 */
export async function checkpointChunks(
  path: Path,
  spec: RunSpec,
  layout: Layout,
  options: ReadOptions,
): Promise<readonly SignedEvent[]> {
  for (const [{ outcome }] of await soundClaims(spec, path.stops, options)) {
    const payloads = payloadsOf(path.stops.get(outcome)!.chain, layout);
    const chunkEvents: SignedEvent[] = [];
    await collectChunks(payloads, options, (event) => chunkEvents.push(event));
    const isComplete = (one: PayloadRoot) => heapChunks(chunkEvents, one.bytes)(one) !== undefined;
    if (payloads.every(isComplete)) return chunkEvents;
  }
  return [];
}

type Claims = readonly [CheckpointClaim, ...CheckpointClaim[]];

/** Returns the claims that match a certified outcome, grouped by outcome, latest round first; reports the others. */
async function soundClaims(
  spec: RunSpec,
  stops: Path['stops'],
  options: ReadOptions,
): Promise<readonly Claims[]> {
  const { onNotice } = options;
  const sound = new Map<Digest, Claims>();
  const run = runIdOf(spec);
  const features = featureSet(spec.features);
  let passed = 0;
  await collectEvents([checkpointsFilter(run)], options, (event) => {
    const claim = toCheckpointClaim(event, run, features);
    if (claim === undefined) return;
    const after = stops.get(claim.outcome)?.chain;
    const why = refuseClaim(claim, after);
    if (why === undefined) {
      sound.set(claim.outcome, withClaim(sound.get(claim.outcome), claim, after!));
    } else if (++passed <= MOST_NAMED) {
      const { author, round } = claim;
      onNotice?.(
        `skipped the checkpoint of ${shortName(author)} after ${roundName(round)}: ${why}`,
      );
    }
  });
  if (passed > MOST_NAMED) onNotice?.(`skipped ${passed - MOST_NAMED} more checkpoints`);
  return [...sound.values()].sort(([a], [b]) => b.round - a.round).slice(0, MOST_TRIED);
}

/** Adds a claim: members' claims come first, so strangers cannot displace them. */
function withClaim(before: Claims | undefined, claim: CheckpointClaim, { ledger }: Chain): Claims {
  if (before === undefined) return [claim];
  if (before.length >= MOST_CLAIMS) return before;
  return ledger.members.some(({ key }) => key === claim.author)
    ? [claim, ...before]
    : before.length < MOST_STRANGERS
      ? [...before, claim]
      : before;
}

/** Returns why a claim does not match a certified outcome; undefined if it matches. */
function refuseClaim(
  { round, outcome, modelRoot, ledgerRoot }: CheckpointClaim,
  after: Chain | undefined,
): string | undefined {
  if (after === undefined) return `no quorum certified outcome ${outcome.slice(0, 8)}`;
  if (round !== after.round - 1) return `that outcome is of ${roundName(after.round - 1)}`;
  const isSame = modelRoot === after.modelRoot && ledgerRoot === after.ledgerRoot;
  return isSame ? undefined : 'other roots are certified';
}

async function isClaimed(
  spec: RunSpec,
  { relays, signal, onUnanswered }: ReadOptions,
): Promise<boolean> {
  const run = runIdOf(spec);
  const features = featureSet(spec.features);
  let hasClaim = false;
  const onEvent = (event: SignedEvent) => {
    hasClaim ||= toCheckpointClaim(event, run, features) !== undefined;
    return hasClaim;
  };
  const queryOptions = { waitMs: PATIENCE_MS, signal, onEvent };
  const { unanswered } = await relays.query([checkpointsFilter(run)], queryOptions);
  if (unanswered.length > 0) onUnanswered?.(unanswered);
  return hasClaim;
}

/**
 * Downloads the model from mirrors and holders and checks it against the certified root; undefined if relays must be
 * used.
 */
async function fetchModel(
  { spec, round, ledger, ...roots }: Chain,
  claims: Claims,
  layout: Layout,
  { chunks, signal, onNotice, relays, ...options }: ReadOptions,
): Promise<Uint8Array | undefined> {
  const [payload, ...others] = payloadsOf(roots, layout);
  // slices are separate payloads and available on relays only
  if (chunks === undefined || payload === undefined || others.length > 0) return undefined;
  const { clock = systemClock, sha256 = pureSha256 } = options;
  const members = ledger.members.map(({ key }) => key);
  for (const digest of manifestsOf(claims, members)) {
    try {
      const bytes = await chunks.fetch({ digest, payload, members, relays, clock, signal });
      if (isPayload(bytes, payload, sha256)) return bytes;
      onNotice?.(`the mirrors of this run have another checkpoint after ${roundName(round - 1)}`);
    } catch (error) {
      signal?.throwIfAborted();
      onNotice?.(`no checkpoint from the mirrors of this run; asking relays: ${wordsOf(error)}`);
    }
  }
  return undefined;
}

async function pullModel(
  payload: PayloadRoot,
  worker: string,
  { relays, signal, clock = systemClock, sha256 = pureSha256 }: ReadOptions,
): Promise<Uint8Array | undefined> {
  const attachments = new Attachments({ relays, clock, sha256 });
  const pulled = await attachments.pullOnce({ ...payload, worker }, { idleMs: IDLE_MS, signal });
  return pulled.ok ? pulled.value : undefined;
}

export interface RunCommittee {
  readonly chain: Chain;
  readonly committee: Committee;
  /** Stakes of the current table; null in a run without stakes. */
  readonly stakes: ReadonlyMap<WorkerId, bigint> | null;
}

/**
 * Returns the committee of a round, by default the current one. Recovery epochs draw from all eligible keys. Throws a
 * ConfigError if the round is not decided that far (`flag/round`) or evidence is missing (`run/missing`).
 */
export async function committeeInRun(
  spec: RunSpec,
  { round, attempt }: { readonly round: number | undefined; readonly attempt: number },
  options: ReadOptions,
): Promise<RunCommittee> {
  const start = openingOf(spec, options);
  const { gathered } = await decisionsOf(spec, start, options);
  const before = chainBefore(replay(start, gathered), round);
  const chain = requireEvidence(withEntropy(before, gathered));
  const stakes = requireEvidence(stakesOf(chain.ledger, gathered));
  const electorate = electorateOf(chain, stakes);
  return { chain, stakes, committee: electorate.draw(attempt, electorate.eligible) };
}

function chainBefore(playing: ReturnType<typeof replay>, round: number | undefined): Chain {
  for (;;) {
    const next = playing.next();
    const chain = next.done ? next.value.state : next.value.before;
    if (chain.round === round || (next.done && round === undefined)) return chain;
    if (!next.done) continue;
    throw new ConfigError(
      'flag/round',
      `the committee of ${roundName(round ?? chain.round)} is not decided yet`,
      {
        hint: `${roundName(chain.round)} is in progress according to these relays`,
      },
    );
  }
}

function requireEvidence<T>(verdict: Ruling<T>): T {
  if (verdict.ok) return verdict.value;
  const lacks = 'missing' in verdict ? verdict.missing.map(({ what, id }) => `${what} ${id}`) : [];
  throw new ConfigError('run/missing', `missing: ${lacks.join(', ')}`, {
    hint:
      'add its stake table with --stake FILE, other relays with --relay URL, or endpoints of ' +
      'its beacon',
  });
}

/** Returns the current state of the run: its round, roster and entropy. */
export async function standOf(spec: RunSpec, options: ReadOptions): Promise<Chain> {
  const start = openingOf(spec, {});
  return pathOf(start, (await decisionsOf(spec, start, options)).gathered).tip.chain;
}
