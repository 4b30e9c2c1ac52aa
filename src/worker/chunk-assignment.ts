/**
 * Assigns parameter chunks to the workers of a round; every worker that starts from the same bits gets the same
 * assignment.
 */
import { fromHex, toHex, utf8 } from '../base/bytes.ts';
import { sha256 } from '../base/hash.ts';
import {
  extraChunks,
  type Ownership,
  ownedChunks,
  rosterDigest,
  seatsAtMost,
} from '../consensus/committee/hrw.ts';
import type { ChunkAssignment } from '../run/contribution.ts';
import { keyNames, type SeatNames } from '../run/founder-seats.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { CHUNK_LENGTH, chunkCount, type Range } from '../tensor/partial-vector.ts';

export interface Division {
  readonly run: string;
  readonly round: number;
  /** Digest of the state the round starts from; unpredictable when the roster was closed. */
  readonly base: Digest;
  readonly roster: readonly WorkerId[];
  /** Names of workers in the draws; default their keys. */
  readonly names?: SeatNames;
  /** Workers that send chunks in addition to the owners; the round does not depend on them. */
  readonly beside?: readonly WorkerId[];
  /** Number of workers that send each chunk; 0 means all. */
  readonly owners: number;
  /** Number of fragments of the model; each round moves one, in turn. */
  readonly fragments: number;
  readonly size: number;
  /** Slices of the model in a run with tiers, each with its workers (`beside`); the roster has the full model. */
  readonly slices?: readonly AssignedSlice[] | undefined;
}

interface AssignedSlice extends Range {
  readonly beside: readonly WorkerId[];
}

/** Returns the maximum chunks that one of `workers` workers sends. */
export function mostChunks(
  { size, owners, fragments }: Pick<Division, 'size' | 'owners' | 'fragments'>,
  workers: number,
): number {
  const chunks = Math.ceil(chunkCount(size) / fragments);
  return owners === 0 ? chunks : seatsAtMost(chunks, workers, owners);
}

/** Returns which chunks each worker sends in a round. */
export function assignChunks(division: Division): ChunkAssignment {
  const { run, round, base, roster, beside = [], names = keyNames, owners } = division;
  const { nameOf } = names;
  const moving = movingChunks(division);
  const slices = division.slices?.map((slice) => ({ ...chunksIn(slice), beside: slice.beside }));
  // additional senders send no more of a slice than an owner would
  const most =
    slices && owners > 0
      ? slices.reduce((sum, { count }) => sum + seatsAtMost(count, roster.length, owners), 0)
      : mostChunks(division, roster.length);
  if (owners === 0) return { digest: undefined, moving, chunksOf: () => moving, most };
  const ownership: Ownership = {
    run: sha256(utf8(run)),
    round,
    entropy: fromHex(base)!,
    workers: roster.map(nameOf),
    owners,
    seats: 'even',
  };
  const owned = new Map(ownedChunks(ownership, moving.length));
  for (const slice of slices ?? [{ first: 0, count: moving.length, beside }]) {
    for (const [worker, chunks] of extraChunks(ownership, slice.beside.map(nameOf), slice.count)) {
      const before = owned.get(worker) ?? [];
      owned.set(worker, Uint32Array.from([...before, ...chunks.map((i) => slice.first + i)]));
    }
  }
  return {
    digest: toHex(rosterDigest(ownership)),
    moving,
    chunksOf: (worker) => (owned.get(nameOf(worker)) ?? new Uint32Array(0)).map((i) => moving[i]!),
    most,
  };
}

/**
 * Returns the chunks of the round's fragment: chunk j is in fragment floor(j * fragments / chunks) (Streaming DiLoCo,
 * arXiv 2501.18512).
 */
function movingChunks({ size, fragments, round }: Division): Uint32Array {
  const count = chunkCount(size);
  const fragment = round % fragments;
  const from = Math.ceil((fragment * count) / fragments);
  const to = Math.ceil(((fragment + 1) * count) / fragments);
  return Uint32Array.from({ length: to - from }, (_, i) => from + i);
}

function chunksIn({ from, to }: Range): { readonly first: number; readonly count: number } {
  const first = Math.floor(from / CHUNK_LENGTH);
  return { first, count: chunkCount(to) - first };
}
