/** Hashes a file while its chunks come in any order: each as soon as those before it are there, in a thread beside where there are many of them. */
import { randomUUID } from 'node:crypto';
import { type FileManifest, type Piece, piecesOf } from '../../network/chunks/manifest.ts';
import type { Digest } from '../../run/ids.ts';
import type { Found } from './chunk-task.ts';
import { startChunkWorkers } from './chunk-workers.ts';
import { chunkFile } from './folder.ts';

export interface WholeFollower {
  /** A chunk that is in the folder now. */
  add(piece: Pick<Piece, 'sha256'>): void;
  /** Whether the file is the one of the manifest; false too where a chunk is not there. */
  isThis(): Promise<boolean>;
  close(): Promise<void>;
}

/** Of shorter files, and of so few chunks that the first is whole when nearly all are, a thread costs more than it saves. */
const WORTH_A_THREAD = { bytes: 2 ** 26, chunks: 32 };

/** Follows what comes into the folder. */
export function followWhole(folder: string, manifest: FileManifest): WholeFollower {
  const { bytes, chunks } = manifest;
  const isWorthIt = bytes >= WORTH_A_THREAD.bytes && chunks.length >= WORTH_A_THREAD.chunks;
  const workers = startChunkWorkers(bytes, isWorthIt ? 1 : 0);
  const name = randomUUID();
  const pieces = piecesOf(manifest).filter(({ offset }) => offset !== undefined);
  const there = new Set<Digest>();
  let next = 0;
  let failed = false;
  let work: Promise<unknown> = Promise.resolve();
  const read = (file: string) => {
    work = work
      .then(() => workers.run({ kind: 'whole', name, file }))
      .catch(() => {
        failed = true;
      });
  };
  return {
    add({ sha256 }) {
      there.add(sha256);
      for (; next < pieces.length && there.has(pieces[next]!.sha256); next++) {
        read(chunkFile(folder, pieces[next]!.sha256));
      }
    },
    async isThis() {
      for (; next < pieces.length; next++) read(chunkFile(folder, pieces[next]!.sha256));
      await work;
      if (failed) return false;
      const [found] = await workers.run({ kind: 'whole', name, file: undefined });
      return isSame(found!, manifest);
    },
    close: () => workers.close(),
  };
}

const isSame = ({ sha256, root, bytes }: Found, manifest: FileManifest): boolean =>
  sha256 === manifest.sha256 && root === manifest.root && bytes === manifest.bytes;
