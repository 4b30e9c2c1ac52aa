/**
 * Packs a file as chunks into a folder. The file is read once, for its hashes and to write the chunk files; threads
 * then hash these and compute parity.
 */
import { readSync, renameSync, writeFileSync } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { utf8 } from '../../base/bytes.ts';
import { CheckpointError, ConfigError, NostrainError } from '../../base/errors.ts';
import {
  chunkCount,
  type Digester,
  type FileManifest,
  type Hashes,
  layoutProblem,
  manifestText,
} from '../../network/chunks/manifest.ts';
import type { ErasureCode } from '../../network/chunks/reed-solomon.ts';
import { parityMatrix } from '../../network/chunks/reed-solomon.ts';
import { cannotWrite, writeAtomically } from '../files/atomic-file.ts';
import type { FileHashes } from './chunk-work.ts';
import {
  type ChunkWorkers,
  createFileHasher,
  nativeDigester,
  startChunkWorkers,
} from './chunk-work.ts';
import { chunkFile, MANIFEST_FILE } from './folder.ts';

export interface PackOptions {
  readonly chunkBytes: number;
  readonly erasure: ErasureCode | null;
  /** Number of worker threads; by default chosen by the machine and the size of the file. */
  readonly threads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  onProgress?(have: number, of: number): void;
}

const PIECE = 2 ** 20;

/**
 * Packs a file and returns its manifest, which is also written to the folder. Throws a ConfigError if the file cannot
 * be read or cut this way, and a CheckpointError if the folder cannot be written to.
 */
export async function packFile(
  file: string,
  folder: string,
  options: PackOptions,
): Promise<FileManifest> {
  const source = await openFile(file);
  try {
    const { size } = await source.stat();
    const problem = layoutProblem(size, options);
    if (problem !== undefined) {
      throw new ConfigError('checkpoint/layout', `${file} cannot be packed: ${problem}`, {
        hint: 'choose other --chunk and --stripe; a longer file needs larger chunks',
      });
    }
    await mkdir(folder, { recursive: true });
    const packing = new Packing(source, size, folder, options);
    const manifest = await packing.run();
    await writeAtomically(join(folder, MANIFEST_FILE), utf8(manifestText(manifest)));
    return manifest;
  } catch (cause) {
    options.signal?.throwIfAborted();
    throw cause instanceof NostrainError ? cause : cannotWrite(folder, cause);
  } finally {
    await source.close();
  }
}

async function openFile(file: string): Promise<FileHandle> {
  const stats = await stat(file).catch(() => undefined);
  const handle = stats?.isFile() ? await open(file).catch(() => undefined) : undefined;
  if (handle) return handle;
  throw new ConfigError('checkpoint/file', `${file} is not a readable file`, {
    hint: 'name a file of at least one byte, such as a state or a model',
  });
}

const shorter = (): CheckpointError =>
  new CheckpointError('checkpoint/changed', 'the file became shorter while it was packed', {
    hint: 'pack a file that no program writes to',
  });

/** One run of `packFile`. */
class Packing {
  readonly #source: FileHandle;
  readonly #size: number;
  readonly #folder: string;
  readonly #options: PackOptions;
  readonly #workers: ChunkWorkers;
  /** Hashes of chunks and parity chunks in order, some still being computed. */
  readonly #chunks: Promise<Hashes>[] = [];
  readonly #parity: Promise<readonly Hashes[]>[] = [];
  /** Buffer of one chunk if chunks are short; else empty. */
  readonly #short: Uint8Array;
  #digester: Digester | undefined;
  /** Paths of files that do not have their final name yet. */
  readonly #parts = new Set<string>();
  #failure: unknown;

  constructor(source: FileHandle, size: number, folder: string, options: PackOptions) {
    this.#source = source;
    this.#size = size;
    this.#folder = folder;
    this.#options = options;
    this.#workers = startChunkWorkers(size, options.threads);
    this.#short = new Uint8Array(options.chunkBytes <= PIECE ? options.chunkBytes : 0);
  }

  async run(): Promise<FileManifest> {
    const { chunkBytes, erasure } = this.#options;
    const hasher = await createFileHasher();
    try {
      const count = chunkCount(this.#size, chunkBytes);
      for (let i = 0; i < count; i++) {
        await this.#write(i, hasher.update);
        if (erasure && ((i + 1) % erasure.data === 0 || i + 1 === count))
          this.#addParity(i, erasure);
      }
      const chunks = await Promise.all(this.#chunks);
      const parity = (await Promise.all(this.#parity)).flat();
      return { ...hasher.digest(), chunkBytes, erasure, chunks, parity };
    } finally {
      await Promise.allSettled([...this.#chunks, ...this.#parity]);
      await this.#workers.close();
      for (const part of this.#parts) await rm(part, { force: true });
    }
  }

  /** Writes a chunk to a file, which is hashed and gets its name while the next one is written. */
  async #write(index: number, hash: (piece: Uint8Array) => void): Promise<void> {
    const { chunkBytes } = this.#options;
    if (chunkBytes <= PIECE) return this.#writeShort(index, hash);
    const bytes = Math.min(chunkBytes, this.#size - index * chunkBytes);
    const part = this.#part(`chunk-${index}`);
    const target = await open(part, 'w', 0o600);
    try {
      await this.#copy(target, index * chunkBytes, bytes, hash);
    } finally {
      await target.close();
    }
    const hashed = this.#workers.run({ kind: 'hash', file: part, bytes });
    this.#chunks.push(this.#note(hashed.then(([made]) => this.#name(part, made!))));
    // stays at most four chunks ahead of the threads
    await this.#chunks[index - 4];
  }

  /** Hashes a short chunk before it is written: reading it again, or awaiting each call, would take longer. */
  async #writeShort(index: number, hash: (piece: Uint8Array) => void): Promise<void> {
    const { chunkBytes, signal, onProgress } = this.#options;
    signal?.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    const from = index * chunkBytes;
    const wanted = Math.min(chunkBytes, this.#size - from);
    const bytes = this.#short.subarray(0, wanted);
    if (readSync(this.#source.fd, bytes, 0, wanted, from) !== wanted) throw shorter();
    hash(bytes);
    this.#digester ??= await nativeDigester();
    this.#digester.update(bytes);
    const hashes = this.#digester.digest();
    const part = this.#part(`chunk-${index}`);
    writeFileSync(part, bytes, { mode: 0o600 });
    renameSync(part, chunkFile(this.#folder, hashes.sha256));
    this.#parts.delete(part);
    this.#chunks.push(Promise.resolve(hashes));
    onProgress?.(from + wanted, this.#size);
    // yields to other work and lets parity keep up
    if (index % 64 === 0) await this.#parity.at(-4);
  }

  async #copy(
    target: FileHandle,
    from: number,
    bytes: number,
    hash: (piece: Uint8Array) => void,
  ): Promise<void> {
    const buffer = new Uint8Array(Math.min(PIECE, bytes));
    for (let at = 0; at < bytes; ) {
      this.#options.signal?.throwIfAborted();
      if (this.#failure !== undefined) throw this.#failure;
      const wanted = Math.min(buffer.length, bytes - at);
      const { bytesRead } = await this.#source.read(buffer, 0, wanted, from + at);
      if (bytesRead === 0) throw shorter();
      const piece = buffer.subarray(0, bytesRead);
      hash(piece);
      await target.writeFile(piece);
      at += bytesRead;
      this.#options.onProgress?.(from + at, this.#size);
    }
  }

  /** Computes the parity of the group that ends with this chunk, once its chunk files have their names. */
  #addParity(last: number, erasure: ErasureCode): void {
    const at = Math.floor(last / erasure.data);
    const members = this.#chunks.slice(at * erasure.data, last + 1);
    const { chunkBytes } = this.#options;
    const bytes = Math.min(chunkBytes, this.#size - at * erasure.data * chunkBytes);
    const parts = Array.from({ length: erasure.parity }, (_, i) => this.#part(`parity-${at}-${i}`));
    const make = async (): Promise<readonly Hashes[]> => {
      const hashes = await Promise.all(members);
      const made = await this.#workers.run({
        kind: 'combine',
        bytes,
        matrix: parityMatrix(erasure, hashes.length),
        sources: hashes.map(({ sha256 }) => chunkFile(this.#folder, sha256)),
        targets: parts.map((file) => ({ file, bytes })),
      });
      return Promise.all(made.map((each, i) => this.#name(parts[i]!, each)));
    };
    this.#parity.push(this.#note(make()));
  }

  #part(name: string): string {
    const part = join(this.#folder, `.${name}.part`);
    this.#parts.add(part);
    return part;
  }

  async #name(part: string, { sha256, blake3 }: FileHashes): Promise<Hashes> {
    await rename(part, chunkFile(this.#folder, sha256));
    this.#parts.delete(part);
    return { sha256, blake3 };
  }

  /** Remembers a failure of background work, which then ends the packing. */
  #note<T>(work: Promise<T>): Promise<T> {
    work.catch((error: unknown) => {
      this.#failure ??= error;
    });
    return work;
  }
}
