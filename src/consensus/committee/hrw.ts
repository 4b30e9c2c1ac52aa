/**
 * Assigns parameter chunks to the workers that send them (owners), by unweighted rendezvous hashing (HRW; Thaler &
 * Ravishankar 1998). A score is 32 bits of SHA-256 over run, round, randomness and key; keys are fixed before the
 * randomness is known. Stake has no influence.
 */
import { concatBytes, fromHex, utf8 } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import type { WorkerId } from '../../run/ids.ts';

/** Everything the assignment of chunks depends on. */
export interface Ownership {
  /** SHA-256 that identifies the run. */
  readonly run: Uint8Array;
  readonly round: number;
  /** Round randomness: 32 bytes that were unpredictable when the roster was closed. */
  readonly entropy: Uint8Array;
  /** The roster, in any order. */
  readonly workers: readonly WorkerId[];
  /** ρ: owners of each chunk, at most all workers. */
  readonly owners: number;
  /**
   * `free`: the workers with the ρ best scores own a chunk, so only the chunks of a leaving worker move. `even`: no
   * worker owns more than an equal share, which bounds its payload.
   */
  readonly seats: 'even' | 'free';
}

type Hash = (bytes: Uint8Array) => Uint8Array;

/** Returns the digest of everything the assignment depends on. */
export function rosterDigest(ownership: Ownership, hash: Hash = sha256): Uint8Array {
  const { owners, seats, workers } = ownership;
  return hash(
    concatBytes(
      utf8('nostrain:roster:'),
      roundFields(ownership),
      u32(owners),
      Uint8Array.of(seats === 'even' ? 1 : 0),
      u32(workers.length),
      ...sorted(workers).map(keyBytes),
    ),
  );
}

/** Returns the chunks that each worker owns, ascending. Throws a RangeError for an invalid or repeated key. */
export function ownedChunks(
  ownership: Ownership,
  chunks: number,
  hash: Hash = sha256,
): ReadonlyMap<WorkerId, Uint32Array> {
  const { owners, seats } = ownership;
  if (!Number.isInteger(owners) || owners < 1) throw new RangeError(`${owners} owners of a chunk`);
  const workers = sorted(ownership.workers);
  const each = Math.min(owners, workers.length);
  const seeds = workers.map((worker) =>
    hash(concatBytes(utf8('nostrain:owner:'), roundFields(ownership), keyBytes(worker))),
  );
  const scores = seeds.map((seed) => chunkScores(seed, chunks, hash));
  // `free` has no limit per worker
  const free =
    seats === 'even' ? quotas(seeds, each * chunks) : seeds.map(() => Number.POSITIVE_INFINITY);
  const owned: number[][] = workers.map(() => []);
  for (let chunk = 0; chunk < chunks; chunk++) {
    for (let seat = 0; seat < each; seat++) {
      const owner = nextOwner(scores, free, owned, chunk, chunks - chunk);
      owned[owner]!.push(chunk);
      free[owner] = free[owner]! - 1;
    }
  }
  return new Map(workers.map((worker, i) => [worker, Uint32Array.from(owned[i]!)]));
}

/**
 * Returns the chunks, ascending, that workers other than the owners send: newcomers, on whose share nothing depends.
 * Seats go around the circle of chunks in the order of the sorted keys, so that a key cannot be chosen to hit a chunk
 * and at most ρ of these workers share one.
 */
export function extraChunks(
  ownership: Ownership,
  others: readonly WorkerId[],
  chunks: number,
  hash: Hash = sha256,
): ReadonlyMap<WorkerId, Uint32Array> {
  const keys = sorted(others);
  const all = ownership.workers.length + keys.length;
  const seats = Math.floor((Math.min(ownership.owners, all) * chunks * keys.length) / all);
  const dealt = chunks === 0 ? 0 : Math.max(1, seats);
  const seed = hash(concatBytes(utf8('nostrain:beside:'), roundFields(ownership)));
  const view = new DataView(seed.buffer, seed.byteOffset, seed.length);
  const [start, rotation] = [view.getUint32(0), view.getUint32(4)];
  const chunksOf = (position: number): Uint32Array => {
    const from = Math.floor((position * dealt) / keys.length);
    const to = Math.floor(((position + 1) * dealt) / keys.length);
    const chosen = Array.from({ length: to - from }, (_, i) => (start + from + i) % chunks);
    return Uint32Array.from(chosen).sort();
  };
  return new Map(keys.map((key, i) => [key, chunksOf((i + rotation) % keys.length)]));
}

/** Returns the maximum number of chunks one worker owns with `even` seats. */
export const seatsAtMost = (chunks: number, workers: number, owners: number): number =>
  Math.min(chunks, Math.ceil((chunks * owners) / workers));

/**
 * Returns the worker with free seats and the best score for a chunk; ties go to the lower key. A worker with as many
 * free seats as chunks remain must take each of them, or a chunk would end with fewer than ρ owners.
 */
function nextOwner(
  scores: readonly Uint32Array[],
  free: readonly number[],
  owned: readonly (readonly number[])[],
  chunk: number,
  toCome: number,
): number {
  let best = -1;
  let bestScore = -1;
  for (let i = 0; i < scores.length; i++) {
    const seats = free[i]!;
    if (seats === 0 || owned[i]!.at(-1) === chunk) continue;
    const score = seats === toCome ? 2 ** 32 : scores[i]![chunk]!;
    if (score > bestScore) {
      best = i;
      bestScore = score;
    }
  }
  return best;
}

/** Returns the seats of each worker: equal numbers, and one more for the workers with the largest seeds. */
function quotas(seeds: readonly Uint8Array[], seats: number): number[] {
  const share = Math.floor(seats / seeds.length);
  const left = seats - share * seeds.length;
  const order = seeds.map((_, i) => i).sort((a, b) => compareBytes(seeds[b]!, seeds[a]!));
  const out = seeds.map(() => share);
  for (const i of order.slice(0, left)) out[i] = share + 1;
  return out;
}

/** Returns the score of each chunk: chunk j has the big-endian word j mod 8 of SHA-256(seed, floor(j / 8)). */
function chunkScores(seed: Uint8Array, chunks: number, hash: Hash): Uint32Array {
  const out = new Uint32Array(chunks);
  const input = concatBytes(seed, new Uint8Array(4));
  const counter = new DataView(input.buffer);
  for (let from = 0; from < chunks; from += 8) {
    counter.setUint32(seed.length, from / 8, true);
    const words = hash(input);
    const view = new DataView(words.buffer, words.byteOffset, words.length);
    for (let i = from; i < Math.min(chunks, from + 8); i++) out[i] = view.getUint32(4 * (i - from));
  }
  return out;
}

/** Returns the keys in ascending order (hex of equal length sorts like its bytes). Throws for a repeated key. */
function sorted(workers: readonly WorkerId[]): WorkerId[] {
  const out = [...workers].sort((a, b) => (a < b ? -1 : 1));
  const twice = out.find((worker, i) => worker === out[i + 1]);
  if (twice !== undefined) throw new RangeError(`${twice} is in the roster twice`);
  return out;
}

function roundFields({ run, round, entropy }: Ownership): Uint8Array {
  if (run.length !== 32 || entropy.length !== 32) throw new RangeError('a digest has 32 bytes');
  return concatBytes(run, u32(round), entropy);
}

function keyBytes(worker: WorkerId): Uint8Array {
  const bytes = fromHex(worker);
  if (bytes?.length !== 32) throw new RangeError(`${worker} is not a public key`);
  return bytes;
}

function u32(value: number): Uint8Array {
  if (value !== value >>> 0) throw new RangeError(`${value} is not a u32`);
  const out = new Uint8Array(4);
  new DataView(out.buffer).setUint32(0, value, true);
  return out;
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return 0;
}
