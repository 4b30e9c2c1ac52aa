/**
 * Holds the checkpoint chunks that placement assigns to this worker, within its capacity, serves them over HTTP, and
 * announces them to relays and other holders. A failure is reported and never stops training.
 */
import { systemClock } from '../../base/async.ts';
import type { ChunkHolder, PackedBytes } from '../../certified/wire/checkpoints.ts';
import type { Placement } from '../../consensus/placement/place.ts';
import { fetchChunks } from '../../network/chunks/fetch.ts';
import { type FileManifest, type Piece, piecesOf } from '../../network/chunks/manifest.ts';
import { Directory } from '../../network/directory/directory.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { buildHolder, type HolderOffer } from '../../network/wire/holders.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { CHECKPOINT_CLASS, type PlacementPolicy } from '../../run/placement-policy.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { announce, createSearch, directoryRoute, unixSeconds } from './directory.ts';
import { openSink } from './fetch-folder.ts';
import { HolderChunkStore } from './holder-chunks.ts';
import { type HolderOptions, HolderServer, type Shelf } from './holder-server.ts';
import { askHolders, holderSources, placeChunks, type RunChunksOptions } from './run-chunks.ts';

export interface RunHolderOptions
  extends Pick<HolderOptions, 'port' | 'host' | 'rate'>,
    Pick<RunChunksOptions, 'signer' | 'onNotice'> {
  readonly policy: PlacementPolicy;
  /** Stores the chunks, in one folder per checkpoint. */
  readonly folder: string;
  /** Maximum bytes of chunks on disk. */
  readonly mostBytes: number;
  /** Number of newest checkpoints to keep. */
  readonly keep: number;
  /** Public address of this server; by default the address it listens on. */
  readonly url?: string | undefined;
  readonly offer: Pick<HolderOffer, 'region' | 'tier' | 'weight'>;
  /** Allows holders at private addresses. */
  readonly allowPrivate: boolean;
}

/** An announcement expires after this many seconds. */
const HOLDS_SECONDS = 3600;
/** Milliseconds between announcements, well within their lifetime. */
const REPEAT_MS = 20 * 60_000;
/** Maximum number of notices remembered, so that none is repeated. */
const MOST_REMEMBERED = 100;

/** Starts a holder. It serves the chunks left by an earlier process, each verified, and then those given to `hold`. */
export async function startRunHolder(options: RunHolderOptions): Promise<RunHolder> {
  const { signer, allowPrivate, port, host, rate, folder, mostBytes, onNotice } = options;
  const shared = { now: unixSeconds, crypto: nativeCrypto, allowPrivate };
  const directory = new Directory({ localKey: signer.publicKey, ...shared });
  const beside = directoryRoute(directory);
  const server = await HolderServer.listen({ port, host, rate, clock: systemClock, beside });
  const reported = new Set<string>();
  const reportOnce = (message: string) => {
    if (reported.has(message)) return;
    if (reported.size >= MOST_REMEMBERED) reported.clear();
    reported.add(message);
    onNotice(message);
  };
  const onFull = (why: string) =>
    reportOnce(`no more chunks are stored, stored ones are still served: ${why}`);
  const chunks = new HolderChunkStore({ folder, mostBytes, server, onFull });
  await chunks.load().catch(async (error: unknown) => {
    await server.close();
    throw error;
  });
  return new RunHolder({ ...options, onNotice: reportOnce }, { directory, server, chunks });
}

interface Parts {
  readonly directory: Directory;
  readonly server: HolderServer;
  readonly chunks: HolderChunkStore;
}

/** Holds the checkpoint chunks that placement assigns to this worker. */
export class RunHolder implements ChunkHolder {
  readonly #options: RunHolderOptions;
  readonly #parts: Parts;
  #relays: RelaySet | undefined;
  #signal = new AbortController().signal;
  #newest: { readonly manifest: FileManifest; readonly members: readonly WorkerId[] } | undefined;
  #announcedAt = 0;
  #work: Promise<void> = Promise.resolve();

  constructor(options: RunHolderOptions, parts: Parts) {
    this.#options = options;
    this.#parts = parts;
  }

  get url(): string {
    return this.#parts.server.url;
  }

  get sentBytes(): number {
    return this.#parts.server.sentBytes;
  }

  /** Returns the stored chunks by the digest of their manifest. */
  storedChunks(): ReadonlyMap<Digest, ReadonlySet<Digest>> {
    const { all } = this.#parts.chunks;
    return new Map(all.map(({ digest, chunks }) => [digest, new Set(chunks.keys())]));
  }

  /** Resolves when all work requested so far is done. */
  settled(): Promise<void> {
    return this.#work;
  }

  close(): Promise<void> {
    return this.#parts.server.close();
  }

  announce(relays: RelaySet, signal: AbortSignal): void {
    [this.#relays, this.#signal] = [relays, signal];
    void this.#repeat(signal);
  }

  hold({ manifest, chunks }: PackedBytes, members: readonly WorkerId[]): Promise<void> {
    return this.#next(async () => {
      this.#newest = { manifest, members };
      await this.#settle(manifest, members, chunks);
      await this.#parts.chunks.keepNewest(this.#options.keep);
      await this.#announceOffer();
    });
  }

  /** Recomputes the placement, stores what it assigns to this worker, and announces it. Never rejects. */
  refresh(): Promise<void> {
    return this.#next(async () => {
      const { manifest, members } = this.#newest ?? {};
      if (manifest && members) await this.#settle(manifest, members);
      await this.#announceOffer();
    });
  }

  async #repeat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.refresh();
      await systemClock.sleep(REPEAT_MS, signal).catch(() => undefined);
    }
  }

  /** Runs work after all work before it. A failure is reported. */
  #next(work: () => Promise<void>): Promise<void> {
    this.#work = this.#work.then(work).catch((error: unknown) => {
      if (this.#signal.aborted) return;
      const why = error instanceof Error ? error.message : String(error);
      this.#options.onNotice(`holding chunks failed: ${why}`);
    });
    return this.#work;
  }

  /** Stores the chunks that placement assigns to this worker and deletes the others. */
  async #settle(
    manifest: FileManifest,
    members: readonly WorkerId[],
    contents?: ReadonlyMap<Digest, Uint8Array>,
  ): Promise<void> {
    const assigned = await this.#assignedChunks(manifest, members);
    if (assigned === undefined) return;
    const { chunks } = this.#parts;
    const shelf = await chunks.open(manifest);
    await chunks.keepOnly(shelf, new Set(assigned.map(({ sha256 }) => sha256)));
    const lacking = assigned.filter(({ sha256 }) => !shelf.chunks.has(sha256));
    if (contents === undefined) await this.#fetch(shelf, lacking);
    else await chunks.store(shelf, lacking, contents, this.#signal);
  }

  /** Returns the chunks of this checkpoint assigned to this worker; undefined if placement assigns none at all. */
  async #assignedChunks(
    manifest: FileManifest,
    members: readonly WorkerId[],
  ): Promise<readonly Piece[] | undefined> {
    const { policy, signer } = this.#options;
    const [relays, me] = [this.#relays, signer.publicKey];
    if (relays === undefined || !members.includes(me)) return undefined;
    const now = unixSeconds();
    const answered = await askHolders({ relays, policy, members, now, signal: this.#signal });
    const others = answered.members.filter(({ key }) => key !== me);
    const all = [...others, { key: me, ...(await this.#offer()) }];
    const placement = placeChunks(policy, manifest, all, answered.attestations, now);
    const shortage = wordShortage(placement);
    if (shortage !== undefined) this.#options.onNotice(shortage);
    if (!placement.ok) return undefined;
    const pieces = piecesOf(manifest);
    return placement.holders.flatMap((keys, i) => (keys.includes(me) ? [pieces[i]!] : []));
  }

  /** Downloads chunks from other holders, to replace a holder that is gone. */
  async #fetch(shelf: Shelf, pieces: readonly Piece[]): Promise<void> {
    if (pieces.length === 0) return;
    const { allowPrivate, signer } = this.#options;
    const { chunks } = this.#parts;
    const { digest } = shelf;
    const search = createSearch(this.#relays, { allowPrivate, signal: this.#signal });
    const holders = await holderSources(digest, search);
    const others = holders.filter(({ key }) => key !== signer.publicKey);
    const index = new Map(piecesOf(shelf.manifest).map(({ sha256 }, i) => [sha256, i]));
    const total = pieces.reduce((sum, { bytes }) => sum + bytes, 0);
    if (!(await chunks.freeSpace(shelf, total))) return;
    await fetchChunks<Piece>({
      digest,
      clock: systemClock,
      signal: this.#signal,
      mostBytes: 2 * total + 2 ** 20,
      wanted: pieces.map((piece) => ({ piece, index: index.get(piece.sha256)! })),
      sources: others.map(({ source }) => source),
      openSink: (piece) => openSink(shelf.folder, piece),
      onChunk: (piece) => shelf.add(piece.sha256),
    });
  }

  async #offer(): Promise<HolderOffer> {
    const { offer, url = this.url } = this.#options;
    const { chunks } = this.#parts;
    const shelves = chunks.all.filter((each) => each.chunks.size > 0);
    return {
      ...offer,
      classes: [CHECKPOINT_CLASS],
      contacts: [url.replace(/\/+$/, '')],
      held: shelves.map(({ digest }) => digest),
      freeBytes: await chunks.capacityBytes(),
    };
  }

  async #announceOffer(): Promise<void> {
    const [relays, { signer, allowPrivate }] = [this.#relays, this.#options];
    if (relays === undefined || this.#signal.aborted) return;
    // a later one of the same second would not replace it
    this.#announcedAt = Math.max(unixSeconds(), this.#announcedAt + 1);
    const offer = await this.#offer();
    const event = signer.sign(buildHolder(offer, this.#announcedAt, HOLDS_SECONDS));
    const search = createSearch(relays, { allowPrivate, signal: this.#signal });
    await announce(event, offer.held, this.#parts.directory, search);
  }
}

/** Returns the notice about an unsatisfiable placement, with the nearest possible one; undefined if it is satisfied. */
function wordShortage(placement: Placement): string | undefined {
  const short = placement.ok ? placement.alert : placement.unsatisfied;
  if (short === undefined) return undefined;
  const { rule, needed, available, relaxation } = short;
  const nearest = relaxation.map((each) => `${each.rule} = ${each.to} (is ${each.from})`);
  const what = placement.ok
    ? 'ALERT: fewer members hold checkpoints'
    : 'ALERT: no member holds checkpoints';
  const words = nearest.length > 0 ? `${nearest.join(', ')}, or more holders` : 'more holders';
  return `${what}: ${rule} needs ${needed}, ${available} available; try ${words}`;
}
