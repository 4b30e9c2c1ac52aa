/** The chunks that a holder of a run stores, served over HTTP and deleted when placement moves on. */
import { mkdir, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { utf8 } from '../../base/bytes.ts';
import {
  type FileManifest,
  manifestDigest,
  manifestText,
  type Piece,
  piecesOf,
} from '../../network/chunks/manifest.ts';
import type { Digest } from '../../run/ids.ts';
import { writeAtomically } from '../files/atomic-file.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { judge, startChunkWorkers } from './chunk-work.ts';
import {
  chunkFile,
  createFolderSource,
  findPacked,
  MANIFEST_FILE,
  readManifest,
} from './folder.ts';
import type { HolderServer, Shelf } from './holder-server.ts';

export interface ChunkStoreOptions {
  readonly folder: string;
  readonly mostBytes: number;
  readonly server: Pick<HolderServer, 'shelve' | 'drop'>;
  /** Called with the reason when no more chunks can be stored. */
  onFull(why: string): void;
}

const bytesOf = (shelves: readonly Shelf[]): number =>
  shelves.flatMap(({ chunks }) => [...chunks.values()]).reduce((sum, bytes) => sum + bytes, 0);

export class HolderChunkStore {
  readonly #options: ChunkStoreOptions;
  /** Oldest first. */
  readonly #shelves = new Map<Digest, Shelf>();
  #isFull = false;

  constructor(options: ChunkStoreOptions) {
    this.#options = options;
  }

  /** Oldest first. */
  get all(): readonly Shelf[] {
    return [...this.#shelves.values()];
  }

  /** Loads the chunks that an earlier process left; each one is read and hashed. */
  async load(): Promise<void> {
    const { folder: home } = this.#options;
    await mkdir(home, { recursive: true, mode: 0o700 });
    const workers = startChunkWorkers(0);
    const packed: { folder: string; atMs: number }[] = [];
    for (const folder of await findPacked(home)) {
      packed.push({ folder, atMs: (await stat(join(folder, MANIFEST_FILE))).mtimeMs });
    }
    for (const { folder } of packed.sort((a, b) => a.atMs - b.atMs)) {
      const manifest = await readManifest(folder).catch(() => undefined);
      if (manifest === undefined) continue;
      const shelf = this.#shelve(folder, manifest);
      for (const piece of piecesOf(manifest)) {
        const how = await judge(workers, folder, piece);
        if (how === 'whole') shelf.add(piece.sha256);
        else if (how === 'changed')
          await rm(chunkFile(folder, piece.sha256), { recursive: true, force: true });
      }
    }
    await workers.close();
  }

  #shelve(folder: string, manifest: FileManifest): Shelf {
    const shelf = this.#options.server.shelve(folder, manifest);
    this.#shelves.set(shelf.digest, shelf);
    return shelf;
  }

  /** Returns the shelf of this checkpoint; creates its folder if needed. */
  async open(manifest: FileManifest): Promise<Shelf> {
    const digest = manifestDigest(manifest, nativeSha256);
    const before = this.#shelves.get(digest);
    if (before) return before;
    const folder = join(this.#options.folder, digest.slice(0, 32));
    await mkdir(folder, { recursive: true });
    await writeAtomically(join(folder, MANIFEST_FILE), utf8(manifestText(manifest)));
    return this.#shelve(folder, manifest);
  }

  /** Writes chunks to disk until the capacity is used up. */
  async store(
    shelf: Shelf,
    pieces: readonly Piece[],
    contents: ReadonlyMap<Digest, Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const source = createFolderSource(shelf.folder);
    for (const piece of pieces) {
      const bytes = contents.get(piece.sha256);
      if (bytes === undefined || shelf.chunks.has(piece.sha256)) continue;
      if (!(await this.freeSpace(shelf, piece.bytes))) return;
      try {
        await source.store!(piece, bytes, signal);
      } catch (error) {
        this.#fill(String(((error as Error).cause as Error | undefined)?.message));
        return;
      }
      shelf.add(piece.sha256);
    }
  }

  /** Deletes all chunks but these. */
  async keepOnly(shelf: Shelf, wanted: ReadonlySet<Digest>): Promise<void> {
    for (const sha256 of shelf.chunks.keys()) {
      if (wanted.has(sha256)) continue;
      shelf.remove(sha256);
      await rm(chunkFile(shelf.folder, sha256), { force: true });
    }
  }

  /** Frees bytes for this checkpoint by deleting older ones, the oldest first; false if that is not enough. */
  async freeSpace(shelf: Shelf, bytes: number): Promise<boolean> {
    while (this.#isFull || (await this.#free()) < bytes) {
      const [oldest] = this.#shelves.values();
      if (oldest === undefined || oldest === shelf) {
        this.#fill('the capacity for chunks is used up');
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

  /** Deletes all but the newest checkpoints. */
  async keepNewest(count: number): Promise<void> {
    for (const each of this.all.slice(0, -count)) await this.#drop(each);
  }

  async #drop({ digest, folder }: Shelf): Promise<void> {
    this.#options.server.drop(digest);
    this.#shelves.delete(digest);
    await rm(folder, { recursive: true, force: true });
    this.#isFull = false;
  }

  async #free(): Promise<number> {
    const { mostBytes, folder } = this.#options;
    const { bavail, bsize } = await statfs(folder);
    return Math.min(mostBytes - bytesOf(this.all), bavail * bsize);
  }

  /**
   * Returns the capacity for one checkpoint in bytes. Older checkpoints make way for it, so the capacity is the same
   * before and after it is stored.
   */
  async capacityBytes(): Promise<number> {
    if (this.#isFull) return bytesOf(this.all.slice(-1));
    return Math.max(0, bytesOf(this.all) + (await this.#free()));
  }
}
