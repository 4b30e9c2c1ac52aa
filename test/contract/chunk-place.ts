/** What every place where chunks live has to do, whatever it is made of: one call of this per kind. */

import { writeFile } from 'node:fs/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../src/base/hash.ts';
import { type FileManifest, type Piece, piecesOf } from '../../src/network/chunks/manifest.ts';
import type { ChunkSource } from '../../src/network/chunks/source.ts';
import { packFile } from '../../src/node/checkpoint/pack.ts';
import { drawnBytes } from '../support/drawn-bytes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A packed file to fill a place with. */
export interface Filling {
  readonly folder: string;
  readonly manifest: FileManifest;
  readonly payload: Uint8Array;
}

export interface PlaceUnderTest {
  readonly place: ChunkSource;
  /** Takes a chunk out of the place, as a disk that lost it. */
  lose?(piece: Piece): Promise<void>;
  close(): Promise<void>;
}

export interface PlaceTraits {
  /** It has parity chunks too. */
  readonly hasParity: boolean;
  /** It says which chunks it has. */
  readonly saysWhatItHas: boolean;
}

const never = new AbortController().signal;

/** Reads all of a chunk; undefined where the place has not got it. */
async function readAll(
  place: ChunkSource,
  piece: Piece,
  signal = never,
): Promise<Uint8Array | undefined> {
  const body = await place.read(piece, signal);
  if (body === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Uint8Array.from(Buffer.concat(parts));
}

/** Runs the contract. */
export function testPlace(
  name: string,
  { hasParity, saysWhatItHas }: PlaceTraits,
  open: (filling: Filling) => Promise<PlaceUnderTest>,
): void {
  describe(name, () => {
    const at = temporaryFolder();
    const opened: PlaceUnderTest[] = [];
    afterEach(async () => {
      for (const each of opened.splice(0)) await each.close();
    });
    const filled = async () => {
      const payload = drawnBytes(200_000);
      await writeFile(at('file'), payload);
      const folder = at('packed');
      const options = { chunkBytes: 2 ** 16, stripe: { data: 2, parity: 1 } };
      const manifest = await packFile(at('file'), folder, options);
      const under = await open({ folder, manifest, payload });
      opened.push(under);
      return { ...under, manifest, pieces: piecesOf(manifest) };
    };

    it('gives every chunk by its hash', async () => {
      const { place, pieces } = await filled();
      for (const piece of pieces.filter(({ offset }) => hasParity || offset !== undefined)) {
        const bytes = await readAll(place, piece);
        expect([piece.name, bytes?.length, sha256Hex(bytes!)]).toEqual([piece.name, piece.bytes, piece.sha256]); // biome-ignore format: one line
      }
    });

    it('gives several at once, and one several times', async () => {
      const { place, pieces } = await filled();
      const data = pieces.filter(({ offset }) => offset !== undefined);
      const all = await Promise.all([...data, ...data].map((piece) => readAll(place, piece)));
      expect(all.map((bytes) => sha256Hex(bytes!))).toEqual([...data, ...data].map(({ sha256 }) => sha256)); // biome-ignore format: one line
    });

    it('says that it has not got what it has not got', async () => {
      const { place, pieces, lose } = await filled();
      const unknown = { ...pieces[0]!, sha256: 'ab'.repeat(32), offset: undefined };
      expect(await readAll(place, unknown)).toBeUndefined();
      if (!lose) return;
      await lose(pieces[1]!);
      expect(await readAll(place, pieces[1]!)).toBeUndefined();
      expect(await readAll(place, pieces[0]!)).toBeDefined();
    });

    it('stops when it is told to', async () => {
      const { place, pieces } = await filled();
      const aborter = new AbortController();
      aborter.abort(new Error('enough'));
      await expect(readAll(place, pieces[0]!, aborter.signal)).rejects.toThrow();
    });

    it(
      saysWhatItHas ? 'says which chunks it has' : 'does not say which chunks it has',
      async () => {
        const { place, pieces, manifest } = await filled();
        const { manifestDigest } = await import('../../src/network/chunks/manifest.ts');
        const have = await place.holds?.(manifestDigest(manifest), never);
        const all = pieces.map((_, i) => ((have?.[i >> 3] ?? 0) >> (i & 7)) & 1);
        expect(all).toEqual(pieces.map(() => (saysWhatItHas ? 1 : 0)));
      },
    );
  });
}
