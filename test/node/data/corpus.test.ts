import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sha256Hex } from 'nostrain/base';
import { writePlay } from 'nostrain/model';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CorpusOptions, loadCorpus, tinyShakespeare } from '../../../src/node/data/corpus.ts';

const playHash = sha256Hex(writePlay());
let dir: string;
let notices: string[];

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nostrain-corpus-'));
  notices = [];
});
afterEach(() => rm(dir, { recursive: true }));

const load = (options: Partial<CorpusOptions>) =>
  loadCorpus({
    cacheDir: join(dir, 'cache'),
    allowDownload: true,
    onNotice: (message) => notices.push(message),
    fetch: () => Promise.reject(new TypeError('fetch failed', { cause: new Error('no route') })),
    ...options,
  });

const answer = (body: string, init?: ResponseInit) => async () => new Response(body, init);

describe('a named file', () => {
  it('is read and nothing else is tried', async () => {
    const file = join(dir, 'mine.txt');
    await writeFile(file, 'to train or not '.repeat(100));
    const corpus = await load({ file, fetch: () => expect.fail('no download is asked for') });
    expect(corpus.source).toBe('file');
    expect(corpus.name).toBe(file);
    expect(corpus.sha256).toBe(sha256Hex(await readFile(file)));
    expect(notices).toEqual([]);
  });

  it.each([
    ['missing', undefined, 'corpus/unreadable', 'ENOENT'],
    ['empty', '', 'corpus/too-small', 'is empty'],
    ['tiny', 'hello', 'corpus/too-small', 'has only 5 bytes'],
  ])('that is %s is refused by path, with a next step', async (name, content, code, why) => {
    const file = join(dir, name);
    if (content !== undefined) await writeFile(file, content);
    const failure = load({ file });
    await expect(failure).rejects.toMatchObject({
      code,
      hint: expect.stringContaining('--corpus'),
    });
    await expect(failure).rejects.toThrow(why);
    await expect(failure).rejects.toThrow(file);
  });
});

describe('without a file', () => {
  it.each<[string, Partial<CorpusOptions>, string]>([
    ['there is no internet', {}, 'no route'],
    ['the answer is not the text', { fetch: answer('something else') }, 'other bytes'],
    ['the server refuses', { fetch: answer('gone', { status: 404 }) }, 'HTTP 404'],
    ['the answer never ends', { fetch: answer('x'.repeat(3_000_000)) }, 'more than 2097152 bytes'],
  ])('the built-in play is used when %s', async (_, options, why) => {
    const corpus = await load(options);
    expect(corpus.source).toBe('built-in');
    expect(corpus.sha256).toBe(playHash);
    expect(sha256Hex(corpus.bytes)).toBe(playHash);
    expect(notices).toEqual([
      expect.stringContaining(why),
      expect.stringContaining('built-in play'),
    ]);
    await expect(readdir(join(dir, 'cache'))).rejects.toThrow('ENOENT');
  });

  it('nothing is asked for where downloads are not allowed', async () => {
    const fetch = vi.fn();
    expect((await load({ allowDownload: false, fetch })).source).toBe('built-in');
    expect(fetch).not.toHaveBeenCalled();
  });

  it('a cached text with other bytes is not used, and said so', async () => {
    const cacheDir = dir;
    await writeFile(join(dir, tinyShakespeare.file), 'First Citizen: hm');
    expect((await load({ cacheDir })).source).toBe('built-in');
    expect(notices[0]).toContain(join(dir, tinyShakespeare.file));
  });

  it('a stop is not taken for a missing internet', async () => {
    const stop = new AbortController();
    const reason = new Error('stopped by the person');
    const fetch: CorpusOptions['fetch'] = (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        stop.abort(reason);
      });
    await expect(load({ fetch, signal: stop.signal })).rejects.toBe(reason);
  });
});

it('a text that is missed is named with the address that the run gives', async () => {
  const wanted = 'f'.repeat(64);
  const from = 'https://example.org/play.txt';
  await expect(load({ wanted, from })).rejects.toMatchObject({
    code: 'corpus/other',
    hint: expect.stringContaining(`--corpus ${from}`),
  });
  await expect(load({ wanted })).rejects.toMatchObject({
    hint: expect.stringContaining('--corpus FILE'),
  });
});

describe('the right bytes', () => {
  // The real text is not in the repository: a stand-in takes its place by its own hash.
  const text = 'First Citizen:\nSpeak, speak.\n\n'.repeat(100);
  const standIn = { ...tinyShakespeare, sha256: sha256Hex(new TextEncoder().encode(text)) };

  it('are kept, and read from the cache the next time', async () => {
    const first = await load({ download: standIn, fetch: answer(text) });
    expect(first).toMatchObject({ source: 'download', name: 'tiny Shakespeare' });
    expect(await readdir(join(dir, 'cache'))).toEqual([tinyShakespeare.file]);
    const again = await load({ download: standIn, fetch: () => expect.fail('already here') });
    expect(again).toEqual({ ...first, source: 'cache' });
    expect(notices).toEqual([]);
  });

  it('are used even where they cannot be kept', async () => {
    const cacheDir = join(dir, 'in-the-way');
    await writeFile(cacheDir, 'a file, not a folder');
    const corpus = await load({ cacheDir, download: standIn, fetch: answer(text) });
    expect(corpus.source).toBe('download');
    expect(notices).toEqual([expect.stringContaining('could not be stored')]);
  });
});
