/**
 * Uploads checkpoints of a run to the Blossom servers that its spec names, and downloads them from these servers, from
 * members that hold chunks and from relays at once. Also computes which member holds which chunk.
 */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import {
  CHECKPOINT_CHUNK_BYTES,
  type CheckpointChunks,
  type CheckpointRequest,
  type ChunkHolder,
} from '../../certified/wire/checkpoints.ts';
import { type Placement, place } from '../../consensus/placement/place.ts';
import { createRelaySource } from '../../network/attachments/relay-source.ts';
import type { FetchEvent } from '../../network/chunks/fetch-options.ts';
import { createBlossomSource, createHttpSource } from '../../network/chunks/http-source.ts';
import { type FileManifest, manifestDigest, manifestText } from '../../network/chunks/manifest.ts';
import type { ChunkSource, SourceReport } from '../../network/chunks/source.ts';
import type { SignedEvent, Signer } from '../../network/event.ts';
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
import { nativeSha256 } from '../native/sha256.ts';
import { createAskHttp } from '../net/ask-http.ts';
import { createSearch, type DirectorySearch, findHolders } from './directory.ts';
import { fetchBytes } from './fetch-folder.ts';
import { findManifest, openSources } from './sources.ts';

export interface RunChunksOptions {
  /** Blossom servers. */
  readonly servers: readonly string[];
  /** Null in a run whose members hold no chunks. */
  readonly policy: PlacementPolicy | null;
  readonly signer: Signer;
  /** Keeps the chunks of an unfinished download. */
  readonly folder: string;
  /** The user allowed private addresses from the spec and from strangers. */
  readonly allowPrivate: boolean;
  /** Holder servers that the user named, for when relays know none. */
  readonly peers?: readonly string[] | undefined;
  /** Holds this worker's own share of the chunks. */
  readonly holder?: ChunkHolder | undefined;
  onNotice(message: string): void;
  /** Called with the sources of a downloaded checkpoint. */
  onFetched?(sources: readonly SourceReport[]): void;
}

/** Maximum bytes downloaded per byte of a checkpoint; wrong and duplicate chunks count too. */
const EXCESS = 2;
const FOLDER = 'checkpoint-';

/** Returns the chunk storage of a run. Addresses come from strangers, so only public ones are used unless allowed. */
export function createRunChunks(options: RunChunksOptions): CheckpointChunks {
  const { signer, folder, allowPrivate, onNotice } = options;
  return {
    holder: options.holder,
    async store({ manifest, chunks }, signal) {
      const usable = await openServers(options, signal);
      const text = utf8(manifestText(manifest));
      const sha256 = manifestDigest(manifest, nativeSha256);
      const ask = createAskHttp({ isTrusted: false, allowPrivate });
      const storeAt = async (url: string) => {
        const source = createBlossomSource(url, { ask, clock: systemClock, signer });
        for (const [hash, bytes] of chunks) {
          await source.store?.({ sha256: hash, bytes: bytes.length, offset: 0 }, bytes, signal);
        }
        await source.store?.({ sha256, bytes: text.length, offset: undefined }, text, signal);
      };
      const tried = await Promise.allSettled(usable.map(({ name }) => storeAt(name)));
      const failed = tried.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
      if (failed.length === tried.length) throw failed[0] ?? noSource();
      for (const error of failed) onNotice((error as Error).message);
    },
    async fetch(wanted) {
      const { digest, payload, signal = new AbortController().signal } = wanted;
      const [servers, holders] = await Promise.all([
        openServers(options, signal),
        findMembers(options, wanted, signal),
      ]);
      const reachable = [...holders.map(({ source }) => source), ...servers];
      if (reachable.length === 0) throw noSource();
      const { manifest } = await findManifest(digest, reachable, signal);
      const { bytes: length, root, chunkBytes } = manifest;
      const isSameState = length === payload.bytes && root === payload.root;
      if (!isSameState || chunkBytes !== CHECKPOINT_CHUNK_BYTES) throw otherState();
      const relays = createRelaySource({
        isSpared: true,
        name: 'relays',
        relays: wanted.relays,
        clock: systemClock,
        sha256: nativeSha256,
        payload,
      });
      const placement = await withExpected(options, holders, manifest, wanted, signal);
      const into = join(folder, `${FOLDER}${digest.slice(0, 16)}`);
      const { bytes, reports } = await fetchBytes(manifest, into, {
        sources: [...placement, ...servers, relays],
        signal,
        mostBytes: EXCESS * payload.bytes + 2 ** 20,
        report: (event) => tell(event, onNotice),
      });
      options.onFetched?.(reports);
      await clear(folder);
      return bytes;
    },
  };
}

const noSource = (): CheckpointError =>
  new CheckpointError('checkpoint/nowhere', 'this run has no mirror at an allowed address', {
    hint: 'to allow private addresses from a spec, use --allow-private-relays',
  });

const otherState = (): CheckpointError =>
  new CheckpointError('checkpoint/other', 'the manifest names another state', {
    hint: 'its publisher named the wrong manifest; relays are used instead',
  });

/** Opens the servers of the spec at allowed addresses. */
async function openServers(
  { servers, allowPrivate, onNotice }: RunChunksOptions,
  signal: AbortSignal,
): Promise<readonly ChunkSource[]> {
  const connection = {
    openTimeoutMs: 0,
    retry: { maxAttempts: 1, initialMs: 0, maxMs: 0, multiplier: 1, jitter: 'none' as const },
  };
  const named = servers.map((text) => ({ text, isTrusted: false, isNear: true }));
  const opened = await openSources(named, undefined, { connection, signal, allowPrivate });
  for (const { name, reason } of opened.refused) onNotice(`${name} is skipped: ${reason}`);
  return opened.sources;
}

/** Returns the members that report holding the checkpoint; none in a run without placement. */
function findMembers(
  { policy, allowPrivate, peers }: RunChunksOptions,
  { digest, relays }: CheckpointRequest,
  signal: AbortSignal,
): Promise<readonly HolderSource[]> {
  if (policy === null) return Promise.resolve([]);
  return holderSources(digest, createSearch(relays, { allowPrivate, signal, peers }));
}

/** Adds to each holder the chunks that placement assigns to it, so that they can be requested before it lists them. */
async function withExpected(
  { policy }: RunChunksOptions,
  holders: readonly HolderSource[],
  manifest: FileManifest,
  { relays, members, digest }: CheckpointRequest,
  signal: AbortSignal,
): Promise<readonly ChunkSource[]> {
  if (policy === null || holders.length === 0) return holders.map(({ source }) => source);
  const now = Math.floor(systemClock.now() / 1000);
  const known = await askHolders({ relays, policy, members, now, signal });
  const holding = known.members.filter(({ held }) => held.includes(digest));
  const placement = placeChunks(policy, manifest, holding, known.attestations, now);
  const bits = new Map<WorkerId, Uint8Array>();
  for (const [i, keys] of (placement.ok ? placement.holders : []).entries()) {
    for (const key of keys) {
      const chunkBits = bits.get(key) ?? new Uint8Array(Math.ceil(manifest.chunks.length / 8));
      chunkBits[i >> 3]! |= 1 << (i & 7);
      bits.set(key, chunkBits);
    }
  }
  return holders.map(({ key, source }) => ({ ...source, expected: bits.get(key) }));
}

function tell(event: FetchEvent, onNotice: (message: string) => void): void {
  if (!('source' in event)) return;
  const what = event.type === 'demoted' ? 'is not used any more' : 'does not answer';
  onNotice(`${event.source} ${what}: ${event.message}`);
}

/** Deletes the chunks that downloads of this and older checkpoints left. */
async function clear(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((each) => each.startsWith(FOLDER))) {
    await rm(join(folder, name), { recursive: true, force: true });
  }
}

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
  /** The newest announcement of each member that holds chunks. */
  readonly members: readonly HolderRecord[];
  /** Attestations by the attestors of the policy. */
  readonly attestations: readonly SignedEvent[];
}

/** Milliseconds to wait for relays. */
const WAIT_MS = 5000;
/** Maximum number of keys in one filter. */
const MOST_AUTHORS = 256;
/** If relays name fewer holders than this, the known holders are asked for more. */
const ENOUGH = 3;
/** Maximum number of holders that chunks are requested from. */
const MOST_HOLDERS = 64;

/** Queries relays for the announcements of members; empty if no relay answers. */
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
  const memberKeys = new Set(members);
  return {
    members: all.filter(({ key }) => memberKeys.has(key)),
    attestations: attestors.length === 0 ? [] : events,
  };
}

/** The fields of an announcement that placement uses. */
export type PlacementMember = Pick<
  HolderRecord,
  'key' | 'region' | 'tier' | 'weight' | 'classes' | 'freeBytes'
>;

/** Assigns the chunks of a checkpoint to members, within their capacities if the rule allows. */
export function placeChunks(
  policy: PlacementPolicy,
  manifest: FileManifest,
  members: readonly PlacementMember[],
  attestations: readonly SignedEvent[],
  now: number,
): Placement {
  const id = manifestDigest(manifest, nativeSha256);
  const attested = withAttestations(members, attestations, policy.attestors, now);
  const chunk = Math.min(manifest.chunkBytes, manifest.bytes);
  const capacities = new Map(
    members.map(({ key, freeBytes }) => [key, Math.floor(freeBytes / chunk)]),
  );
  const holders = attested.map((holder) => ({ ...holder, capacity: capacities.get(holder.key) }));
  return place(policy, holders, { id, count: manifest.chunks.length, name: CHECKPOINT_CLASS });
}

/** A holder as a source of chunks. */
export interface HolderSource {
  readonly key: WorkerId;
  readonly source: ChunkSource;
}

/** Finds the holders of an object and returns them as sources. They are marked near, so they are used before relays. */
export async function holderSources(
  object: Digest,
  search: DirectorySearch,
): Promise<readonly HolderSource[]> {
  const { holders } = await findHolders(object, ENOUGH, search);
  const ask = createAskHttp({ isTrusted: false, allowPrivate: search.allowPrivate });
  return holders.slice(0, MOST_HOLDERS).flatMap(({ key, contacts: [url] }) => {
    if (url === undefined) return [];
    return [{ key, source: createHttpSource(url, { ask, clock: systemClock, isNear: true }) }];
  });
}
