/** Corpora by address: pinned, gone on with where they were broken off, and refused when they are others. */
import { readdir, readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sha256Hex } from 'nostrain/base';
import { loadCorpus } from 'nostrain/node';
import { openCorpus } from 'nostrain/node/parts';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const at = temporaryFolder();
const text = Buffer.from('To be, or not to be, that is the question.\n'.repeat(5000));
const sha256 = sha256Hex(text);

let server: Server;
let address = '';
/** Bytes after which the answer breaks off. */
let cutAt: number | undefined;
let served = text;
let asked: (string | undefined)[] = [];
let notices: string[] = [];

beforeEach(async () => {
  [cutAt, served, asked, notices] = [undefined, text, [], []];
  server = createServer(({ headers: { range }, url }, response) => {
    asked.push(range);
    if (url === '/gone.txt') return void response.writeHead(404).end();
    const from = Number(/bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0);
    const body = served.subarray(from);
    response.writeHead(from > 0 ? 206 : 200, { 'content-length': body.length });
    if (cutAt === undefined) return void response.end(body);
    response.write(body.subarray(0, cutAt));
    setTimeout(() => response.destroy(), 100);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/play.txt`;
});
afterEach(() => new Promise((done) => server.close(done)));

const options = (file: string, wanted?: string) => ({
  ...{ file, wanted, cacheDir: at('cache'), allowDownload: true },
  onNotice: (message: string) => notices.push(message),
});

describe('a corpus with its hash', () => {
  const pinned = () => `${address}#sha256=${sha256}`;

  test('is fetched once', async () => {
    const corpus = await loadCorpus(options(pinned()));
    expect(corpus).toMatchObject({ sha256, source: 'download', name: address });
    expect(Buffer.from(corpus.bytes).equals(text)).toBe(true);
    expect(await openCorpus(options(pinned()))).toMatchObject({ sha256, source: 'cache' });
    // the hash of a run spec pins it as well, at whatever address
    const other = address.replace('play', 'other');
    expect(await openCorpus(options(other, sha256))).toMatchObject({ source: 'cache' });
    expect(asked).toEqual([undefined]);
  });

  test('goes on where it was broken off', async () => {
    cutAt = 50_000;
    await expect(openCorpus(options(pinned()))).rejects.toMatchObject({ code: 'corpus/away' });
    const [part] = await readdir(at('cache'));
    const have = (await readFile(at('cache', part!))).length;
    expect(have).toBeGreaterThan(0);
    cutAt = undefined;
    expect(await openCorpus(options(pinned()))).toMatchObject({ sha256, source: 'download' });
    expect(asked).toEqual([undefined, `bytes=${have}-`]);
  });

  test('is refused when something else is there', async () => {
    served = Buffer.from('other words '.repeat(1000));
    await expect(openCorpus(options(pinned()))).rejects.toMatchObject({ code: 'corpus/other' });
    expect(await readdir(at('cache'))).toEqual([]);
    const wanted = 'f'.repeat(64);
    await expect(openCorpus(options(pinned(), wanted))).rejects.toThrow(wanted);
  });
});

test('without one it is fetched as it is, and its hash is told', async () => {
  const corpus = await openCorpus(options(address));
  expect(corpus).toMatchObject({ sha256, source: 'download' });
  expect(notices).toEqual([expect.stringContaining(`#sha256=${sha256}`)]);
  expect(await openCorpus(options(address))).toMatchObject({ sha256, source: 'cache' });
  expect(asked).toHaveLength(1);
});

test.each([
  ['http://example.org/play.txt', 'it is not https'],
  ['https://', 'it is not a valid URL'],
  ['https://example.org/play.txt#here', 'the part after # is not a sha256'],
  ['https://example.org/play.txt#sha256=abc', 'the part after # is not a sha256'],
])('%s is not an address of a corpus', async (named, reason) => {
  const refused = openCorpus(options(named));
  await expect(refused).rejects.toMatchObject({ code: 'corpus/address' });
  await expect(refused).rejects.toThrow(reason);
});

test('an address that leads nowhere, or to little, is named', async () => {
  const gone = address.replace('play', 'gone');
  await expect(openCorpus(options(gone))).rejects.toThrow('HTTP 404');
  served = Buffer.from('short');
  await expect(openCorpus(options(address))).rejects.toMatchObject({ code: 'corpus/too-small' });
});
