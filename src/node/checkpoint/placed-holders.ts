/** Who of a run's members holds chunks, by their announcements on relays, and which chunks of a checkpoint placement gives to whom. */
import { systemClock } from '../../base/async.ts';
import { type Placement, place } from '../../consensus/placement/place.ts';
import { createHttpSource } from '../../network/chunks/http-source.ts';
import { type FileManifest, manifestDigest } from '../../network/chunks/manifest.ts';
import type { ChunkSource } from '../../network/chunks/source.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { QueryOptions, QueryResult } from '../../network/transport/query.ts';
import {
  attestationFilter,
  type HolderRecord,
  holderFilter,
  newestHolders,
  withAttestations,
} from '../../network/wire/holders.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { CHECKPOINT_CLASS, type PlacementPolicy } from '../../run/placement-policy.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { createAskHttp } from './ask-http.ts';
import { createDirectoryPort } from './directory-route.ts';
import { type DirectorySearch, findHolders } from './find-holders.ts';

export interface HolderQuestion {
  readonly relays: {
    query(filters: readonly Filter[], options: QueryOptions): Promise<QueryResult>;
  };
  readonly policy: PlacementPolicy;
  readonly members: readonly WorkerId[];
  /** Unix seconds. */
  readonly now: number;
  readonly signal: AbortSignal;
}

export interface AnsweredHolders {
  /** The newest announcement of each member that holds. */
  readonly members: readonly HolderRecord[];
  /** What attestors of the policy say. */
  readonly attestations: readonly SignedEvent[];
}

const WAIT_MS = 5000;
/** Keys in one filter. */
const MOST_AUTHORS = 256;
/** Holders that relays know; with fewer, holders are asked for others. */
const ENOUGH = 3;
/** Holders that are asked for chunks. */
const MOST_PLACES = 64;

/** What relays have of them; nobody where they do not answer. */
export async function askHolders(question: HolderQuestion): Promise<AnsweredHolders> {
  const { relays, policy, members, now, signal } = question;
  const parts = Array.from({ length: Math.ceil(members.length / MOST_AUTHORS) }, (_, i) =>
    members.slice(i * MOST_AUTHORS, (i + 1) * MOST_AUTHORS),
  );
  const { attestors } = policy;
  const filters = [
    ...parts.map((authors) => ({ ...holderFilter(), authors: [...authors] })),
    ...(attestors.length === 0 ? [] : [attestationFilter(attestors)]),
  ];
  const { events } = await relays.query(filters, { waitMs: WAIT_MS, signal });
  const all = [...newestHolders(events, now).values()];
  const own = new Set(members);
  return {
    members: all.filter(({ key }) => own.has(key)),
    attestations: attestors.length === 0 ? [] : events,
  };
}

/** What of an announcement placement looks at. */
export type PlacedMember = Pick<
  HolderRecord,
  'key' | 'region' | 'tier' | 'weight' | 'classes' | 'freeBytes'
>;

/** Who keeps each chunk of a checkpoint: nobody more than it has room for. */
export function placeChunks(
  policy: PlacementPolicy,
  manifest: FileManifest,
  members: readonly PlacedMember[],
  attestations: readonly SignedEvent[],
  now: number,
): Placement {
  const id = manifestDigest(manifest, nativeSha256);
  const attested = withAttestations(members, attestations, policy.attestors, now);
  const chunk = Math.min(manifest.chunkBytes, manifest.bytes);
  const rooms = new Map(members.map(({ key, freeBytes }) => [key, Math.floor(freeBytes / chunk)]));
  const holders = attested.map((holder) => ({ ...holder, room: rooms.get(holder.key) }));
  return place(policy, holders, { id, count: manifest.chunks.length, name: CHECKPOINT_CLASS });
}

/** The directory as a worker asks it: its relays first, then holders hop by hop. */
export function searchOf(
  relays: DirectorySearch['relays'],
  { allowPrivate, signal, peers = [] }: SearchBounds,
): DirectorySearch {
  const now = () => Math.floor(systemClock.now() / 1000);
  const port = createDirectoryPort({
    http: createAskHttp({ isTrusted: false, allowPrivate }),
    peerHttp: createAskHttp({ isTrusted: true, allowPrivate }),
    now,
    allowPrivate,
    signal,
    crypto: nativeCrypto,
  });
  return { relays, peers, port, now, allowPrivate, waitMs: WAIT_MS, signal };
}

interface SearchBounds {
  readonly allowPrivate: boolean;
  readonly signal: AbortSignal;
  /** Addresses of holder servers that a person named. */
  readonly peers?: readonly string[] | undefined;
}

/** A holder as a place. */
export interface HolderPlace {
  readonly key: WorkerId;
  readonly place: ChunkSource;
}

/** Holders of an object as places: near ones, so that they are asked before relays. */
export async function holderPlaces(
  object: Digest,
  search: DirectorySearch,
): Promise<readonly HolderPlace[]> {
  const { holders } = await findHolders(object, ENOUGH, search);
  const ask = createAskHttp({ isTrusted: false, allowPrivate: search.allowPrivate });
  return holders.slice(0, MOST_PLACES).flatMap(({ key, contacts: [url] }) => {
    if (url === undefined) return [];
    return [{ key, place: createHttpSource(url, { ask, clock: systemClock, isNear: true }) }];
  });
}
