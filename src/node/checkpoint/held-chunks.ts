/**
 * Chunks that a worker holds for others, on its disk and on its server: a folder for each checkpoint, all of them
 * within a bound of bytes.
 */
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
import { writeWhole } from '../files/whole-file.ts';
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

export interface HeldOptions {
  readonly folder: string;
  readonly mostBytes: number;
  readonly server: Pick<HolderServer, 'shelve' | 'drop'>;
  /** Told why nothing more is taken. */
  onFull(why: string): void;
}

const bytesOf = (held: readonly Shelf[]): number =>
  held.flatMap(({ chunks }) => [...chunks.values()]).reduce((sum, bytes) => sum + bytes, 0);

export class HeldChunks {
  readonly #options: HeldOptions;
  /** Oldest first. */
  readonly #held = new Map<Digest, Shelf>();
  #isFull = false;

  constructor(options: HeldOptions) {
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
    await writeWhole(join(folder, MANIFEST_FILE), utf8(manifestText(manifest)));
    return this.#shelve(folder, manifest);
  }

  /** Puts chunks on the disk, until there is no room. */
  async store(
    held: Shelf,
    pieces: readonly Piece[],
    contents: ReadonlyMap<Digest, Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const place = createFolderSource(held.folder);
    for (const piece of pieces) {
      const bytes = contents.get(piece.sha256);
      if (bytes === undefined || held.chunks.has(piece.sha256)) continue;
      if (!(await this.makeRoom(held, piece.bytes))) return;
      try {
        await place.store!(piece, bytes, signal);
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

  /** Room for so many bytes of this checkpoint: older ones go first; false where that is not enough. */
  async makeRoom(held: Shelf, bytes: number): Promise<boolean> {
    while (this.#isFull || (await this.#free()) < bytes) {
      const [oldest] = this.#held.values();
      if (oldest === undefined || oldest === held) {
        this.#fill('the room for chunks is used up');
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
   * Bytes that there is room for of one checkpoint, since older ones give way: the same before it is here and
   * after.
   */
  async room(): Promise<number> {
    if (this.#isFull) return bytesOf(this.all.slice(-1));
    return Math.max(0, bytesOf(this.all) + (await this.#free()));
  }
}
