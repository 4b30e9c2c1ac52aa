/**
 * A worker that holds chunks of its run's checkpoints for others: those that placement gives it, within its capacity,
 * served over HTTP and announced to relays and other holders. Failures are reported, and never keep it from training.
 */
import { mkdir, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import type { ChunkHolder, PackedBytes } from '../../certified/wire/checkpoints.ts';
import type { Placement } from '../../consensus/placement/place.ts';
import { fetchChunks } from '../../network/chunks/fetch.ts';
import {
  type FileManifest,
  manifestDigest,
  manifestText,
  type Piece,
  piecesOf,
} from '../../network/chunks/manifest.ts';
import { Directory } from '../../network/directory/directory.ts';
import type { Signer } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { buildHolder, type HolderOffer } from '../../network/wire/holders.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { CHECKPOINT_CLASS, type PlacementPolicy } from '../../run/placement-policy.ts';
import { writeAtomically } from '../files/atomic-file.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { judge, startChunkWorkers } from './chunk-work.ts';
import { announce, createSearch, directoryRoute, unixSeconds } from './directory.ts';
import { openSink } from './fetch-folder.ts';
import {
  chunkFile,
  createFolderSource,
  findPacked,
  MANIFEST_FILE,
  readManifest,
} from './folder.ts';
import { HolderServer, type Shelf } from './holder-server.ts';
import { askHolders, holderSources, placeChunks } from './run-chunks.ts';

export interface RunHolderOptions {
  readonly policy: PlacementPolicy;
  readonly signer: Signer;
  /** Where chunks lie, a folder for each checkpoint. */
  readonly folder: string;
  /** Room for chunks. */
  readonly mostBytes: number;
  /** Checkpoints that are held, the newest ones. */
  readonly keep: number;
  readonly port: number;
  readonly host: string;
  /** Bytes a second to all together. */
  readonly rate?: number | undefined;
  /** Where others reach this server; default where it listens. */
  readonly url?: string | undefined;
  readonly offer: Pick<HolderOffer, 'region' | 'tier' | 'weight'>;
  /** Holders at private addresses are asked too. */
  readonly allowPrivate: boolean;
  onNotice(message: string): void;
}

/** Who says nothing for so long is gone. */
const HOLDS_SECONDS = 3600;
const REPEAT_MS = 20 * 60_000;
/** Words that were said are not said again. */
const MOST_TOLD = 100;

/** Serves what was held before, each chunk checked, and from then on what `hold` brings. */
export async function startRunHolder(options: RunHolderOptions): Promise<RunHolder> {
  const { signer, allowPrivate, port, host, rate, folder, mostBytes, onNotice } = options;
  const shared = { now: unixSeconds, crypto: nativeCrypto, allowPrivate };
  const directory = new Directory({ own: signer.publicKey, ...shared });
  const beside = directoryRoute(directory);
  const server = await HolderServer.listen({ port, host, rate, clock: systemClock, beside });
  const told = new Set<string>();
  const tell = (message: string) => {
    if (told.has(message)) return;
    if (told.size >= MOST_TOLD) told.clear();
    told.add(message);
    onNotice(message);
  };
  const onFull = (why: string) => tell(`no more chunks are taken, what is here is served: ${why}`);
  const chunks = new HolderChunkStore({ folder, mostBytes, server, onFull });
  await chunks.load().catch(async (error: unknown) => {
    await server.close();
    throw error;
  });
  return new RunHolder({ ...options, onNotice: tell }, { directory, server, chunks });
}

interface Parts {
  readonly directory: Directory;
  readonly server: HolderServer;
  readonly chunks: HolderChunkStore;
}

/** Holds the chunks of checkpoints that placement gives to this worker. */
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

  /** Chunks that are held, by the digest of their manifest. */
  held(): ReadonlyMap<Digest, ReadonlySet<Digest>> {
    const { all } = this.#parts.chunks;
    return new Map(all.map(({ digest, chunks }) => [digest, new Set(chunks.keys())]));
  }

  /** Resolves when what was to be held until now is. */
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

  /** Looks again who holds what, and holds what is its own. Never rejects. */
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

  /** One thing after another. */
  #next(work: () => Promise<void>): Promise<void> {
    this.#work = this.#work.then(work).catch((error: unknown) => {
      if (this.#signal.aborted) return;
      const why = error instanceof Error ? error.message : String(error);
      this.#options.onNotice(`chunks are not held as they should be: ${why}`);
    });
    return this.#work;
  }

  /** Holds what placement gives this worker, and lets go of what it does not. */
  async #settle(
    manifest: FileManifest,
    members: readonly WorkerId[],
    contents?: ReadonlyMap<Digest, Uint8Array>,
  ): Promise<void> {
    const mine = await this.#mine(manifest, members);
    if (mine === undefined) return;
    const { chunks } = this.#parts;
    const held = await chunks.open(manifest);
    await chunks.keepOnly(held, new Set(mine.map(({ sha256 }) => sha256)));
    const lacking = mine.filter(({ sha256 }) => !held.chunks.has(sha256));
    if (contents === undefined) await this.#fetch(held, lacking);
    else await chunks.store(held, lacking, contents, this.#signal);
  }

  /** Its chunks of this checkpoint; undefined where nothing is placed. */
  async #mine(
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

  /** From other holders: somebody who had them is gone. */
  async #fetch(held: Shelf, pieces: readonly Piece[]): Promise<void> {
    if (pieces.length === 0) return;
    const { allowPrivate, signer } = this.#options;
    const { chunks } = this.#parts;
    const { digest } = held;
    const search = createSearch(this.#relays, { allowPrivate, signal: this.#signal });
    const found = await holderSources(digest, search);
    const others = found.filter(({ key }) => key !== signer.publicKey);
    const index = new Map(piecesOf(held.manifest).map(({ sha256 }, i) => [sha256, i]));
    const total = pieces.reduce((sum, { bytes }) => sum + bytes, 0);
    if (!(await chunks.freeSpace(held, total))) return;
    await fetchChunks<Piece>({
      digest,
      clock: systemClock,
      signal: this.#signal,
      mostBytes: 2 * total + 2 ** 20,
      wanted: pieces.map((piece) => ({ piece, index: index.get(piece.sha256)! })),
      sources: others.map(({ source }) => source),
      openSink: (piece) => openSink(held.folder, piece),
      onChunk: (piece) => held.add(piece.sha256),
    });
  }

  async #offer(): Promise<HolderOffer> {
    const { offer, url = this.url } = this.#options;
    const { chunks } = this.#parts;
    const held = chunks.all.filter((each) => each.chunks.size > 0);
    return {
      ...offer,
      classes: [CHECKPOINT_CLASS],
      contacts: [url.replace(/\/+$/, '')],
      held: held.map(({ digest }) => digest),
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

/** What of the placement cannot be had, and the nearest that can. */
function wordShortage(placement: Placement): string | undefined {
  const short = placement.ok ? placement.alert : placement.unsatisfied;
  if (short === undefined) return undefined;
  const { rule, needed, available, relaxation } = short;
  const nearest = relaxation.map((each) => `${each.rule} = ${each.to} (is ${each.from})`);
  const what = placement.ok ? 'ALERT: checkpoints are held by fewer' : 'NOBODY holds checkpoints';
  const words = nearest.length > 0 ? `${nearest.join(', ')}, or more holders` : 'more holders';
  return `${what}: ${rule} needs ${needed}, ${available} to be had; try ${words}`;
}

export interface ChunkStoreOptions {
  readonly folder: string;
  readonly mostBytes: number;
  readonly server: Pick<HolderServer, 'shelve' | 'drop'>;
  /** Told why nothing more is taken. */
  onFull(why: string): void;
}

const bytesOf = (held: readonly Shelf[]): number =>
  held.flatMap(({ chunks }) => [...chunks.values()]).reduce((sum, bytes) => sum + bytes, 0);

class HolderChunkStore {
  readonly #options: ChunkStoreOptions;
  /** Oldest first. */
  readonly #held = new Map<Digest, Shelf>();
  #isFull = false;

  constructor(options: ChunkStoreOptions) {
    this.#options = options;
  }

  /** Oldest first. */
  get all(): readonly Shelf[] {
    return [...this.#held.values()];
  }

  /** What a worker before this one left, each chunk read and hashed. */
  async load(): Promise<void> {
    const { folder: home } = this.#options;
    await mkdir(home, { recursive: true, mode: 0o700 });
    const workers = startChunkWorkers(0);
    const found: { folder: string; atMs: number }[] = [];
    for (const folder of await findPacked(home)) {
      found.push({ folder, atMs: (await stat(join(folder, MANIFEST_FILE))).mtimeMs });
    }
    for (const { folder } of found.sort((a, b) => a.atMs - b.atMs)) {
      const manifest = await readManifest(folder).catch(() => undefined);
      if (manifest === undefined) continue;
      const held = this.#shelve(folder, manifest);
      for (const piece of piecesOf(manifest)) {
        const how = await judge(workers, folder, piece);
        if (how === 'whole') held.add(piece.sha256);
        else if (how === 'changed')
          await rm(chunkFile(folder, piece.sha256), { recursive: true, force: true });
      }
    }
    await workers.close();
  }

  #shelve(folder: string, manifest: FileManifest): Shelf {
    const shelf = this.#options.server.shelve(folder, manifest);
    this.#held.set(shelf.digest, shelf);
    return shelf;
  }

  /** The folder of this checkpoint, made where there is none. */
  async open(manifest: FileManifest): Promise<Shelf> {
    const digest = manifestDigest(manifest, nativeSha256);
    const before = this.#held.get(digest);
    if (before) return before;
    const folder = join(this.#options.folder, digest.slice(0, 32));
    await mkdir(folder, { recursive: true });
    await writeAtomically(join(folder, MANIFEST_FILE), utf8(manifestText(manifest)));
    return this.#shelve(folder, manifest);
  }

  /** Writes chunks to disk until the storage budget is used up. */
  async store(
    held: Shelf,
    pieces: readonly Piece[],
    contents: ReadonlyMap<Digest, Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const source = createFolderSource(held.folder);
    for (const piece of pieces) {
      const bytes = contents.get(piece.sha256);
      if (bytes === undefined || held.chunks.has(piece.sha256)) continue;
      if (!(await this.freeSpace(held, piece.bytes))) return;
      try {
        await source.store!(piece, bytes, signal);
      } catch (error) {
        this.#fill(String(((error as Error).cause as Error | undefined)?.message));
        return;
      }
      held.add(piece.sha256);
    }
  }

  /** Lets go of chunks that are none of these. */
  async keepOnly(held: Shelf, wanted: ReadonlySet<Digest>): Promise<void> {
    for (const sha256 of held.chunks.keys()) {
      if (wanted.has(sha256)) continue;
      held.remove(sha256);
      await rm(chunkFile(held.folder, sha256), { force: true });
    }
  }

  /** Deletes the oldest checkpoints until `bytes` more fit; returns false if that is not enough. */
  async freeSpace(held: Shelf, bytes: number): Promise<boolean> {
    while (this.#isFull || (await this.#free()) < bytes) {
      const [oldest] = this.#held.values();
      if (oldest === undefined || oldest === held) {
        this.#fill('the storage budget for chunks is used up');
        return false;
      }
      await this.#drop(oldest);
    }
    return true;
  }

  #fill(why: string): void {
    this.#isFull = true;
    this.#options.onFull(why);
  }

  /** Drops all but the newest of them. */
  async keepNewest(count: number): Promise<void> {
    for (const each of this.all.slice(0, -count)) await this.#drop(each);
  }

  async #drop({ digest, folder }: Shelf): Promise<void> {
    this.#options.server.drop(digest);
    this.#held.delete(digest);
    await rm(folder, { recursive: true, force: true });
    this.#isFull = false;
  }

  async #free(): Promise<number> {
    const { mostBytes, folder } = this.#options;
    const { bavail, bsize } = await statfs(folder);
    return Math.min(mostBytes - bytesOf(this.all), bavail * bsize);
  }

  /**
   * Returns how many bytes of one checkpoint fit, if older ones are deleted; the same before and after it is stored.
   */
  async capacityBytes(): Promise<number> {
    if (this.#isFull) return bytesOf(this.all.slice(-1));
    return Math.max(0, bytesOf(this.all) + (await this.#free()));
  }
}
