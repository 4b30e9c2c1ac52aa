/**
 * Catches up from relays: finds the newest certified checkpoint and pulls its chunks, and tells the committee of a
 * round. Only the certified root is trusted; each chunk proves itself.
 */
import { systemClock } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import { sha256 as pureSha256 } from '../../base/hash.ts';
import { Attachments } from '../../network/attachments/attachments.ts';
import { heapChunks, isPayload, type PayloadRoot } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Committee } from '../../run/committee.ts';
import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import type { ListedVotes } from '../../run/listed.ts';
import { featureSet } from '../../run/spec/features.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
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
  /** The branch through this outcome, where the run forks. */
  readonly through?: Digest | undefined;
}

/** How long no chunk of a checkpoint may come: relays that take five events a minute get one in twelve seconds. */
const IDLE_MS = 120_000;
/** How long relays may take to say that there is none. */
const PATIENCE_MS = 60_000;
/** Checkpoints that are tried, the newest first. */
const MOST_TRIED = 3;
/** Checkpoints that are named when they are passed over: there may be any number of them. */
const MOST_NAMED = 8;
/** Claims that are kept of one checkpoint. */
const MOST_CLAIMS = 64;
/** After so many those of strangers are not. */
const MOST_STRANGERS = 8;

/** The state after the newest certified checkpoint whose chunks arrive; undefined if there is none. */
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
        `the chunks of the checkpoint after ${roundName(chain.round - 1)} did not come`,
      );
      continue;
    }
    return { state: { ...chain, ...readSlices(slices, layout) }, votes };
  }
  return undefined;
}

/** The bytes of a certified model, of a worker of a small tier only those of its rings: nothing else is asked for. */
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
  for (const payload of payloadsOf(chain.spec, chain, layout)) {
    const bytes = await pullModel(payload, author, options);
    if (bytes === undefined) return undefined;
    slices.push(bytes);
  }
  return slices;
}

/** Chunks of the newest certified state that relays have completely, for an archive; empty if there is none. */
export async function checkpointChunks(
  path: Path,
  spec: RunSpec,
  layout: Layout,
  options: ReadOptions,
): Promise<readonly SignedEvent[]> {
  for (const [{ outcome }] of await soundClaims(spec, path.stops, options)) {
    const payloads = payloadsOf(spec, path.stops.get(outcome)!.chain, layout);
    const chunkEvents: SignedEvent[] = [];
    await collectChunks(payloads, options, (event) => chunkEvents.push(event));
    const isComplete = (one: PayloadRoot) => heapChunks(chunkEvents, one.bytes)(one) !== undefined;
    if (payloads.every(isComplete)) return chunkEvents;
  }
  return [];
}

type Claims = readonly [CheckpointClaim, ...CheckpointClaim[]];

/** Claims that match what is certified, grouped by outcome, latest round first; reports those that do not. */
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
        `passed over the checkpoint of ${author.slice(0, 8)} after ${roundName(round)}: ${why}`,
      );
    }
  });
  if (passed > MOST_NAMED) onNotice?.(`passed over ${passed - MOST_NAMED} more checkpoints`);
  return [...sound.values()].sort(([a], [b]) => b.round - a.round).slice(0, MOST_TRIED);
}

/** Claims of members stand before those of strangers, who crowd nobody out. */
function withClaim(before: Claims | undefined, claim: CheckpointClaim, { ledger }: Chain): Claims {
  if (before === undefined) return [claim];
  if (before.length >= MOST_CLAIMS) return before;
  return ledger.members.some(({ key }) => key === claim.author)
    ? [claim, ...before]
    : before.length < MOST_STRANGERS
      ? [...before, claim]
      : before;
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

/** The model from mirrors and holders, checked against the certified root; undefined if relays must be asked. */
async function fetchModel(
  { spec, round, ledger, ...roots }: Chain,
  claims: Claims,
  layout: Layout,
  { chunks, signal, onNotice, relays, ...options }: ReadOptions,
): Promise<Uint8Array | undefined> {
  const [payload, ...others] = payloadsOf(spec, roots, layout);
  // slices travel one by one, over relays alone
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
      const why = error instanceof Error ? error.message : String(error);
      onNotice?.(`no checkpoint from the mirrors of this run; asking relays: ${why}`);
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
  /** Of the table that holds; null in a run without. */
  readonly stakes: ReadonlyMap<WorkerId, bigint> | null;
}

/** The committee of a round, by default the one in progress; recovery epochs draw from all who may sit. */
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
      `nobody decided who votes in ${roundName(round ?? chain.round)} yet`,
      {
        hint: `${roundName(chain.round)} is in progress, as far as these relays know`,
      },
    );
  }
}

function requireEvidence<T>(verdict: Ruling<T>): T {
  if (verdict.ok) return verdict.value;
  const lacks = 'missing' in verdict ? verdict.missing.map(({ what, id }) => `${what} ${id}`) : [];
  throw new ConfigError('run/missing', `not here: ${lacks.join(', ')}`, {
    hint:
      'name its stakes with --stake FILE, other relays with --relay URL, or endpoints of ' +
      'its beacon',
  });
}

/** Where the run stands: the round in progress, its roster and its entropy. */
export async function standOf(spec: RunSpec, options: ReadOptions): Promise<Chain> {
  const start = openingOf(spec, {});
  return pathOf(start, (await decisionsOf(spec, start, options)).gathered).tip.chain;
}
