/** Divides the parameters among the workers of a round, the same way on every worker that starts from the same bits. */
import { fromHex, toHex, utf8 } from '../base/bytes.ts';
import { sha256 } from '../base/hash.ts';
import {
  type Ownership,
  ownedChunks,
  rosterDigest,
  seatsAtMost,
} from '../consensus/committee/hrw.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Shares } from '../run/shares.ts';
import { chunkCount } from '../tensor/partial-vector.ts';

export interface Division {
  readonly run: string;
  readonly round: number;
  /** Digest of the state the round starts from: nobody knew it when the roster was closed. */
  readonly base: Digest;
  readonly roster: readonly WorkerId[];
  /** Workers that send each chunk; 0 means all of them. */
  readonly owners: number;
  /** Parameters of the model. */
  readonly size: number;
}

/** The most chunks a worker of so many sends. */
export const mostChunks = (size: number, workers: number, owners: number): number =>
  owners === 0 ? chunkCount(size) : seatsAtMost(chunkCount(size), workers, owners);

export function divide({ run, round, base, roster, owners, size }: Division): Shares {
  const chunks = chunkCount(size);
  if (owners === 0) {
    const all = Uint32Array.from({ length: chunks }, (_, chunk) => chunk);
    return { digest: undefined, chunksOf: () => all, most: chunks };
  }
  const ownership: Ownership = {
    run: sha256(utf8(run)),
    round,
    entropy: fromHex(base)!,
    workers: roster,
    owners,
    seats: 'even',
  };
  const owned = ownedChunks(ownership, chunks);
  return {
    digest: toHex(rosterDigest(ownership)),
    chunksOf: (worker) => owned.get(worker) ?? new Uint32Array(0),
    most: mostChunks(size, roster.length, owners),
  };
}
