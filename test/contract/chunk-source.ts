/** What every source of chunks has to do, and what a fetch makes of it: one call of this per kind of source. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sha256Hex, systemClock } from 'nostrain/base';
import {
  type ChunkSource,
  type FileManifest,
  manifestDigest,
  type Piece,
  piecesOf,
} from 'nostrain/network';
import { packFile } from 'nostrain/node/parts';
import { afterEach, describe, expect, it } from 'vitest';
import { fetchChunks } from '../../src/network/chunks/fetch.ts';
import type { FetchEvent, FetchOptions } from '../../src/network/chunks/fetch-options.ts';
import { drawnBytes } from '../support/drawn-bytes.ts';
import { createFakeSource, createMemoryStore } from '../support/fake-sources.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A packed file to fill a source with. */
export interface Filling {
  readonly folder: string;
  readonly manifest: FileManifest;
  readonly payload: Uint8Array;
}

export interface SourceUnderTest {
  readonly source: ChunkSource;
  /** Takes a chunk out of the source, as a disk that lost it. */
  lose?(piece: Piece): Promise<void>;
  close(): Promise<void>;
}

export interface SourceTraits {
  /** It has parity chunks too. */
  readonly hasParity: boolean;
  /** It says which chunks it has. */
  readonly listsChunks: boolean;
}

const never = new AbortController().signal;

/** Reads all of a chunk; undefined where the source has not got it. */
async function readAll(
  source: ChunkSource,
  piece: Piece,
  signal = never,
): Promise<Uint8Array | undefined> {
  const body = await source.read(piece, signal);
  if (body === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Uint8Array.from(Buffer.concat(parts));
}

/** Runs the contract. */
export function testSource(
  name: string,
  { hasParity, listsChunks }: SourceTraits,
  open: (filling: Filling) => Promise<SourceUnderTest>,
): void {
  describe(name, () => {
    const at = temporaryFolder();
    const opened: SourceUnderTest[] = [];
    afterEach(async () => {
      for (const each of opened.splice(0)) await each.close();
    });
    const filled = async () => {
      const payload = drawnBytes(200_000);
      await writeFile(at('file'), payload);
      const folder = at('packed');
      const options = { chunkBytes: 2 ** 16, erasure: { data: 2, parity: 1 } };
      const manifest = await packFile(at('file'), folder, options);
      const under = await open({ folder, manifest, payload });
      opened.push(under);
      return { ...under, folder, manifest, pieces: piecesOf(manifest) };
    };

    it('gives every chunk by its hash', async () => {
      const { source, pieces } = await filled();
      for (const piece of pieces.filter(({ offset }) => hasParity || offset !== undefined)) {
        const bytes = await readAll(source, piece);
        expect([piece.name, bytes?.length, sha256Hex(bytes!)]).toEqual([
          piece.name,
          piece.bytes,
          piece.sha256,
        ]);
      }
    });

    it('gives several at once, and one several times', async () => {
      const { source, pieces } = await filled();
      const data = pieces.filter(({ offset }) => offset !== undefined);
      const all = await Promise.all([...data, ...data].map((piece) => readAll(source, piece)));
      expect(all.map((bytes) => sha256Hex(bytes!))).toEqual(
        [...data, ...data].map(({ sha256 }) => sha256),
      );
    });

    it('says that it has not got what it has not got', async () => {
      const { source, pieces, lose } = await filled();
      const unknown = { ...pieces[0]!, sha256: 'ab'.repeat(32), offset: undefined };
      expect(await readAll(source, unknown)).toBeUndefined();
      if (!lose) return;
      await lose(pieces[1]!);
      expect(await readAll(source, pieces[1]!)).toBeUndefined();
      expect(await readAll(source, pieces[0]!)).toBeDefined();
    });

    it('stops when it is told to', async () => {
      const { source, pieces } = await filled();
      const aborter = new AbortController();
      aborter.abort(new Error('enough'));
      await expect(readAll(source, pieces[0]!, aborter.signal)).rejects.toThrow();
    });

    it(listsChunks ? 'says which chunks it has' : 'does not say which chunks it has', async () => {
      const { source, pieces, manifest } = await filled();
      const have = await source.holds?.(manifestDigest(manifest), never);
      const all = pieces.map((_, i) => ((have?.[i >> 3] ?? 0) >> (i & 7)) & 1);
      expect(all).toEqual(pieces.map(() => (listsChunks ? 1 : 0)));
    });

    describe('a fetch', () => {
      const fetched = async (faults: { readonly fault?: 'garbage' | 'stops' | 'fails' } = {}) => {
        const under = await filled();
        const { manifest, folder, source } = under;
        const contents = new Map<string, Uint8Array>();
        for (const { sha256 } of under.pieces)
          contents.set(sha256, await readFile(join(folder, sha256)));
        const data = under.pieces.filter(({ offset }) => offset !== undefined);
        const other = createFakeSource({ name: 'other', clock: systemClock, contents, ...faults });
        const run = (sources: readonly ChunkSource[], options: Partial<FetchOptions> = {}) => {
          const store = createMemoryStore();
          const events: FetchEvent[] = [];
          const wanted = data.map((piece) => ({ piece, index: under.pieces.indexOf(piece) }));
          const { openSink } = store;
          const digest = manifestDigest(manifest);
          const report = (event: FetchEvent) => void events.push(event);
          const how = {
            digest,
            wanted,
            sources,
            clock: systemClock,
            signal: never,
            openSink,
            report,
          };
          const done = fetchChunks<Piece>({ ...how, stallMs: 500, ...options });
          return done.then(({ missing, sources: reports }) => {
            return { missing, reports, held: store.held, events };
          });
        };
        return { ...under, source, data, other, run };
      };

      it('from it alone brings every chunk', async () => {
        const { run, source, data } = await fetched();
        const { missing, reports, held } = await run([source]);
        expect([missing, held.size]).toEqual([[], data.length]);
        expect(reports).toMatchObject([{ state: 'good', chunks: data.length, corrupt: 0 }]);
      });

      it('takes from another source what it lacks, and still trusts it', async () => {
        const { run, source, data, other, lose } = await fetched();
        if (lose) await lose(data[1]!);
        const { missing, reports, held } = await run([source, other]);
        expect([missing, held.size]).toEqual([[], data.length]);
        expect(reports[0]!.state).toBe('good');
      });

      it.each(['garbage', 'stops', 'fails'] as const)(
        'makes up for a source that %s, and names one that lies',
        async (fault) => {
          const { run, source, data, other } = await fetched({ fault });
          const { missing, reports, held, events } = await run([
            { ...other, isNear: true },
            source,
          ]);
          expect([missing, held.size]).toEqual([[], data.length]);
          expect(reports[1]).toMatchObject({ state: 'good', corrupt: 0 });
          const lied = events.filter(({ type }) => type === 'demoted');
          if (fault === 'garbage') expect(lied).toMatchObject([{ source: 'other' }]);
          else expect(lied).toEqual([]);
        },
      );

      it('names what no source has', async () => {
        const { run, source, data, lose } = await fetched();
        if (!lose) return;
        await lose(data[0]!);
        expect((await run([source])).missing).toEqual([data[0]]);
      });

      it('takes no more bytes than it may', async () => {
        const { run, source } = await fetched();
        const running = run([source], { mostBytes: 1000 });
        await expect(running).rejects.toMatchObject({ code: 'checkpoint/too-much' });
      });
    });
  });
}
