/** Fetching into a folder over loopback: from two kinds of sources at once, going on where it was killed, parity for what is nowhere, and liars. */
import { once } from 'node:events';
import { renameSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { systemClock } from 'nostrain/base';
import {
  type ChunkSource,
  createHttpSource,
  type FileManifest,
  manifestDigest,
  piecesOf,
} from 'nostrain/network';
import { createAskHttp, createFolderSource, packFile, serveFolder } from 'nostrain/node/parts';
import { afterEach, describe, expect, it } from 'vitest';
import { type FetchFolderOptions, fetchFolder } from '../../../src/node/checkpoint/fetch-folder.ts';
import type { HolderOptions } from '../../../src/node/checkpoint/holder-server.ts';
import { findManifest } from '../../../src/node/checkpoint/sources.ts';
import { verifyFolder } from '../../../src/node/checkpoint/unpack.ts';
import { drawnBytes } from '../../support/drawn-bytes.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const at = temporaryFolder();
/** A poll waits for an event: it may take as long as the test. */
const UNTIL = { timeout: 50_000, interval: 10 };
const never = new AbortController().signal;
const clock = systemClock;
const ask = createAskHttp({ isTrusted: true });
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

async function pack(): Promise<FileManifest> {
  await writeFile(at('file'), drawnBytes(400_000));
  const options = { chunkBytes: 2 ** 15, erasure: { data: 4, parity: 2 } };
  return packFile(at('file'), at('packed'), options);
}
async function holder(
  manifest: FileManifest,
  folder: string,
  options: Partial<HolderOptions> = {},
) {
  const server = await serveFolder(folder, manifest, { port: 0, host: '127.0.0.1', clock, ...options }); // biome-ignore format: one line
  opened.push(server);
  return { server, source: createHttpSource(server.url, { ask, clock }) };
}
const fetchTo = (
  manifest: FileManifest,
  sources: readonly ChunkSource[],
  options: Partial<FetchFolderOptions> = {}, // biome-ignore format: one line
) => fetchFolder(manifest, at('out'), { sources, signal: never, ...options });
const isWhole = async (manifest: FileManifest) => (await verifyFolder(at('out'), manifest)).whole;
const dataOf = (manifest: FileManifest) => piecesOf(manifest).filter(({ offset }) => offset !== undefined); // biome-ignore format: one line

/** A folder with some of the chunks, each right or with a wrong byte. */
async function folderWith(
  name: string,
  chunks: readonly string[],
  isWrong = false,
): Promise<string> {
  await mkdir(at(name));
  for (const each of chunks) {
    const bytes = await readFile(at('packed', each));
    if (isWrong) bytes[0]! ^= 1;
    await writeFile(at(name, each), bytes);
  }
  return at(name);
}

describe('fetching into a folder', () => {
  it('takes from a holder and a folder at once what it has not got, and is whole in the end', async () => {
    const manifest = await pack();
    const { source } = await holder(manifest, at('packed'));
    const fetched = await fetchTo(manifest, [source, createFolderSource(at('packed'))]);
    expect(await isWhole(manifest)).toBe(true);
    expect(fetched).toMatchObject({ kept: 0, bytes: 400_000, restored: 0 });
    expect(fetched.sources.every(({ chunks, state }) => chunks > 0 && state === 'good')).toBe(true);
    expect(await fetchTo(manifest, [])).toMatchObject({ kept: 400_000, bytes: 0 });
  });

  it('goes on where it was killed, whatever it left', async () => {
    const manifest = await pack();
    const { source } = await holder(manifest, at('packed'));
    for (let after = 1; after < 12; after += 5) {
      const aborter = new AbortController();
      let had = 0;
      const onChunk = () => {
        if (++had === after) aborter.abort(new Error('killed'));
      };
      const killed = fetchTo(manifest, [source], { signal: aborter.signal, onChunk, perSource: 1 });
      await expect(killed).rejects.toThrow('killed');
    }
    await writeFile(at('out', '.0123-dead.part'), 'half a chunk');
    const [first] = dataOf(manifest);
    await writeFile(at('out', first!.sha256), drawnBytes(first!.bytes, 9));
    const { kept, bytes } = await fetchTo(manifest, [source]);
    expect(kept).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(400_000);
    expect(await isWhole(manifest)).toBe(true);
    expect((await readdir(at('out'))).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('restores from parity what is nowhere', { timeout: 120_000 }, async () => {
    const manifest = await pack();
    const data = dataOf(manifest);
    for (const piece of [data[0]!, data[5]!, data[6]!]) await rm(at('packed', piece.sha256));
    const { source } = await holder(manifest, at('packed'));
    const { restored } = await fetchTo(manifest, [source]);
    expect(restored).toBe(3);
    expect(await isWhole(manifest)).toBe(true);
  });

  it('names what is nowhere and beyond parity, and keeps the rest for the next time', async () => {
    const manifest = await pack();
    const data = dataOf(manifest);
    const gone = data.slice(4, 7).map(({ sha256 }) => sha256);
    const rest = piecesOf(manifest).map(({ sha256 }) => sha256).filter((each) => !gone.includes(each)); // biome-ignore format: one line
    const some = createFolderSource(await folderWith('some', rest));
    await expect(fetchTo(manifest, [some])).rejects.toMatchObject({
      code: 'checkpoint/nowhere',
      message: 'no source has chunk 4, chunk 5, chunk 6, and parity does not restore them',
    });
    const { bytes } = await fetchTo(manifest, [createFolderSource(at('packed'))]);
    expect(bytes).toBe(3 * 2 ** 15);
    expect(await isWhole(manifest)).toBe(true);
  });

  it('asks a liar for one chunk and names it', async () => {
    const manifest = await pack();
    const all = dataOf(manifest).map(({ sha256 }) => sha256);
    const liar = createFolderSource(await folderWith('liar', all, true));
    const { source } = await holder(manifest, at('packed'));
    const told: string[] = [];
    const { sources } = await fetchTo(manifest, [{ ...liar, isNear: true }, source], {
      perSource: 1,
      report: (event) => 'source' in event && told.push(`${event.type} ${event.source}`),
    });
    expect(told).toEqual([`demoted ${at('liar')}`]);
    expect(sources[0]).toMatchObject({ corrupt: 1, chunks: 0 });
    expect(await isWhole(manifest)).toBe(true);
  });

  it('says that the disk does not take it, which is no fault of a source', async () => {
    const manifest = await pack();
    const { source } = await holder(manifest, at('packed'));
    let had = 0;
    const onChunk = () => {
      if (++had === 1) renameSync(at('out'), at('gone'));
    };
    const full = fetchTo(manifest, [source], { onChunk, perSource: 1 });
    await expect(full).rejects.toMatchObject({ code: 'run/write' });
  });

  it('never mixes two files in one folder', async () => {
    const manifest = await pack();
    await fetchTo(manifest, [createFolderSource(at('packed'))]);
    const other = { ...manifest, root: manifest.sha256 };
    await expect(fetchTo(other, [])).rejects.toMatchObject({ code: 'checkpoint/other-folder' });
  });

  it('believes no manifest that its own root contradicts', async () => {
    const manifest = { ...(await pack()), root: 'ab'.repeat(32) };
    const fetching = fetchTo(manifest, [createFolderSource(at('packed'))]);
    await expect(fetching).rejects.toMatchObject({ code: 'checkpoint/other' });
  });
});

describe('a manifest', () => {
  it('is found by digest, address, folder and file', async () => {
    const manifest = await pack();
    const digest = manifestDigest(manifest);
    const { server, source } = await holder(manifest, at('packed'));
    const found = (what: string) => findManifest(what, [source], never);
    expect(await found(digest)).toEqual({ manifest, beside: undefined });
    expect(await found(`${server.url}/${digest}`)).toEqual({ manifest, beside: `${server.url}/` });
    expect(await found(at('packed'))).toEqual({ manifest, beside: at('packed') });
    expect(await found(at('packed', 'manifest.json'))).toEqual({ manifest, beside: undefined });
    const code = (what: string) => found(what).catch((error) => error.code);
    expect(await code('ab'.repeat(32))).toBe('checkpoint/no-manifest');
    expect(await code(`${server.url}/nothing`)).toBe('checkpoint/no-manifest');
    expect(await code(at('nothing'))).toBe('checkpoint/what');
    await copyFile(at('packed', piecesOf(manifest)[0]!.sha256), at('packed', digest));
    const liar = createFolderSource(at('packed'));
    await expect(findManifest(digest, [liar], never)).rejects.toThrow('sends other bytes');
    expect(await code(`${server.url}/${digest}#sha256=${'cd'.repeat(32)}`)).toBe(
      'checkpoint/other',
    );
  });
});

describe('a holder server', () => {
  const get = (url: string, headers: Record<string, string> = {}, method = 'GET') =>
    fetch(url, { headers, method });

  it('gives parts of chunks, says how long they are, and nothing else of the disk', async () => {
    const manifest = await pack();
    const { server } = await holder(manifest, at('packed'));
    const piece = piecesOf(manifest)[0]!;
    const url = `${server.url}/${piece.sha256}`;
    const bytes = await readFile(at('packed', piece.sha256));
    const part = await get(url, { range: 'bytes=10-19' });
    expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes 10-19/${piece.bytes}`]); // biome-ignore format: one line
    expect(Buffer.from(await part.arrayBuffer())).toEqual(bytes.subarray(10, 20));
    const end = await get(url, { range: 'bytes=-5' });
    expect(Buffer.from(await end.arrayBuffer())).toEqual(bytes.subarray(-5));
    const head = await get(url, {}, 'HEAD');
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(piece.bytes)]);
    expect((await get(url, { range: `bytes=${piece.bytes}-` })).status).toBe(416);
    expect((await get(url, {}, 'PUT')).status).toBe(405);
    for (const path of [
      '',
      '/',
      '/../file',
      '/%2e%2e/file',
      '/manifest.json',
      `/${'ab'.repeat(32)}`,
      `/${piece.sha256}/..`,
    ]) {
      // biome-ignore format: one line
      expect((await get(`${server.url}${path}`)).status).toBe(404);
    }
  });

  it('keeps to its rate, to its number of answers at once, and to its copies of a chunk', async () => {
    const manifest = await pack();
    const pieces = dataOf(manifest);
    const slow = createManualClock();
    const { server: paced } = await holder(manifest, at('packed'), { rate: 400_000, most: 2, mostPerAddress: 9, clock: slow }); // biome-ignore format: one line
    const all = pieces.slice(0, 3).map(({ sha256 }) => get(`${paced.url}/${sha256}`));
    // two wait for their turn until the clock moves; the third is sent away meanwhile
    expect((await Promise.race(all)).status).toBe(503);
    await expect.poll(() => slow.pending, UNTIL).toBe(4);
    const waits = slow.sleeps.filter((ms) => ms < 10_000);
    expect(waits.map(Math.round)).toEqual([82, 164]); // of 32 KiB each at 400 kB a second
    await slow.advance(1000);
    expect((await Promise.all(all)).map(({ status }) => status).sort()).toEqual([200, 200, 503]);
    const ended: Promise<unknown>[] = [];
    const { server } = await holder(manifest, at('packed'), {
      servesPerWindow: 2,
      beside: (_, response) => {
        ended.push(once(response, 'close'));
        return false;
      },
    });
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) {
      const answer = await get(`${server.url}/${pieces[0]!.sha256}`);
      statuses.push(answer.status);
      await answer.arrayBuffer();
      await Promise.all(ended);
    }
    expect(statuses).toEqual([200, 200, 429]);
    expect(server.sentBytes).toBe(2 * pieces[0]!.bytes);
  });

  it('ends responses to slow readers, of which one address has few', async () => {
    // more than the buffers between two sockets take
    await writeFile(at('large'), new Uint8Array(2 ** 24));
    const manifest = await packFile(at('large'), at('packed'), {
      chunkBytes: 2 ** 24,
      erasure: { data: 1, parity: 1 },
    });
    const manual = createManualClock();
    const { server } = await holder(manifest, at('packed'), { clock: manual, mostPerAddress: 2 });
    const [piece] = piecesOf(manifest);
    const url = `${server.url}/${piece!.sha256}`;
    const { port, hostname } = new URL(url);
    const sockets = [0, 1].map(() => connect(Number(port), hostname).pause());
    for (const socket of sockets) socket.write(`GET /${piece!.sha256} HTTP/1.1\r\nhost: x\r\n\r\n`);
    await expect.poll(() => manual.pending, UNTIL).toBe(2);
    expect((await get(url)).status).toBe(503);
    await manual.advance(10_000 + 1000 * (piece!.bytes / 16_384) - 1);
    expect((await get(url)).status).toBe(503);
    const closed = sockets.map((socket) =>
      once(
        socket.on('error', () => undefined),
        'close',
      ),
    );
    await manual.advance(1);
    for (const socket of sockets) socket.resume();
    await Promise.all(closed);
    await expect.poll(async () => (await get(url, {}, 'GET')).status, UNTIL).toBe(200);
  });

  it('says where it cannot listen', async () => {
    const manifest = await pack();
    const { server } = await holder(manifest, at('packed'));
    const port = Number(new URL(server.url).port);
    await expect(holder(manifest, at('packed'), { port })).rejects.toMatchObject({ code: 'checkpoint/port' }); // biome-ignore format: one line
  });
});

describe('newcomers that pass on what they have', () => {
  it('all get the file, and the one who had it sends less than all of it to each', {
    timeout: 180_000,
  }, async () => {
    const manifest = await pack();
    const { server: origin } = await holder(manifest, at('packed'), { servesPerWindow: 2 });
    const joiners = await Promise.all(
      Array.from({ length: 5 }, async (_, i) => {
        await mkdir(at(`joiner${i}`));
        return holder(manifest, at(`joiner${i}`));
      }),
    );
    const urls = [origin.url, ...joiners.map(({ server }) => server.url)];
    await Promise.all(
      joiners.map(({ server }, i) =>
        fetchFolder(manifest, at(`joiner${i}`), {
          sources: urls.filter((url) => url !== server.url).map((url) => createHttpSource(url, { ask, clock })), // biome-ignore format: one line
          signal: never,
          isShuffled: true,
          onChunk: ({ sha256 }) => server.add(sha256),
        }),
      ),
    );
    for (const i of [0, 1, 2, 3, 4]) {
      expect((await verifyFolder(at(`joiner${i}`), manifest)).whole).toBe(true);
    }
    expect(origin.sentBytes).toBeLessThanOrEqual(2.01 * manifest.bytes);
  });
});
