/** Chunks over HTTP: what an answer means, how much of it is read, and what an upload signs and believes. */

import { createSigner } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import {
  createBlossomSource,
  createHttpSource,
  HAVE_TYPE,
  type HttpAnswer,
  type HttpRequest,
} from '../../../src/network/chunks/http-source.ts';
import { createManualClock } from '../../support/manual-clock.ts';

const { signal } = new AbortController();
const blob = { sha256: 'ab'.repeat(32), bytes: 3, offset: 0 };
const utf8 = (text: string) => new TextEncoder().encode(text);

interface Given {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Pieces of the body. */
  readonly body?: Iterable<Uint8Array>;
}

/** A server that gives these answers, one after the other; `requests` are what it was asked. */
function serverOf(...answers: readonly (Given | Error)[]) {
  const requests: (HttpRequest & { readonly url: string })[] = [];
  const read: number[] = [];
  let cancelled = 0;
  const ask = async (url: string, request: HttpRequest): Promise<HttpAnswer> => {
    requests.push({ url, ...request });
    const answer = answers[requests.length - 1] ?? { status: 500 };
    if (answer instanceof Error) throw answer;
    const { status = 200, headers = {}, body = [] } = answer;
    async function* pieces() {
      for (const piece of body) {
        read.push(piece.length);
        yield piece;
      }
    }
    const header = (name: string) => headers[name];
    return { status, header, body: pieces(), cancel: () => void cancelled++ };
  };
  return { ask, requests, read, cancelled: () => cancelled, clock: createManualClock() };
}

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => expect.fail('it did not fail'),
    (error: Error & { retryMs?: number }) => error,
  );

describe('a chunk over HTTP', () => {
  it('is named by its hash under the address, without its query; 404 and 410 say that it is absent', async () => {
    const server = serverOf({ body: [utf8('abc')] }, { status: 404 }, { status: 410 });
    const source = createHttpSource('https://user:secret@example.com/x/?token=hunter2#y', server);
    expect(source.name).not.toMatch(/secret|hunter2/);
    const parts = [];
    for await (const part of (await source.read(blob, signal))!) parts.push(part);
    expect(parts).toEqual([utf8('abc')]);
    expect(server.requests[0]!.url).toMatch(new RegExp(`example.com/x/${blob.sha256}$`));
    expect(await source.read(blob, signal)).toBeUndefined();
    expect(await source.read(blob, signal)).toBeUndefined();
    expect(server.cancelled()).toBe(2);
  });

  it.each([
    [503, { 'retry-after': '7' }, 7000],
    [429, { 'retry-after': '100000' }, 60_000],
    [429, {}, 1000],
    [408, { 'retry-after': 'soon' }, 1000],
    [403, { 'retry-after': '7' }, undefined],
  ])(
    'answered with %d may be asked again after the stated time, within a minute',
    async (status, headers, retryMs) => {
      const reason = `no\n${'x'.repeat(300)}`;
      const server = serverOf({ status, headers: { ...headers, 'x-reason': reason } });
      const error = await failureOf(
        createHttpSource('https://example.com', server).read(blob, signal),
      );
      expect(error.retryMs).toBe(retryMs);
      expect(error.message).toMatch(new RegExp(`^https://example.com answers ${status}: no.{1,6}x{190,200}$`)); // biome-ignore format: one line
      expect(server.cancelled()).toBe(1);
    },
  );

  it('of a server that cannot be reached says why; a stopped request does not', async () => {
    const cause = Object.assign(new Error('fetch failed'), { cause: new Error('ENOTFOUND\u001b') });
    const source = createHttpSource('https://example.com', serverOf(cause, cause));
    const { message } = await failureOf(source.read(blob, signal));
    expect(message).toContain('https://example.com cannot be reached (ENOTFOUND');
    expect(message).not.toContain('\u001b');
    const stopped = AbortSignal.abort(new Error('enough'));
    expect((await failureOf(source.read(blob, stopped))).message).toBe('enough');
  });

  it('is listed in 32 KiB of the right type, and not in more or anything else', async () => {
    const typed = { 'content-type': HAVE_TYPE };
    const most = 2 ** 15;
    function* endless() {
      for (;;) yield new Uint8Array(2 ** 14);
    }
    const server = serverOf(
      { headers: typed, body: [new Uint8Array(most)] },
      { headers: typed, body: endless() },
      { headers: { 'content-type': 'application/json' }, body: endless() },
      { status: 404, headers: typed, body: endless() },
    );
    const source = createHttpSource('https://example.com', server);
    const lists = [];
    for (let i = 0; i < 4; i++) lists.push((await source.holds!(blob.sha256, signal))?.length);
    expect(lists).toEqual([most, undefined, undefined, undefined]);
    expect(server.read.reduce((sum, each) => sum + each)).toBeLessThanOrEqual(3 * most);
    expect(server.cancelled()).toBe(3);
  });
});

describe('an upload to a Blossom server', () => {
  const signer = createSigner(new Uint8Array(32).fill(7));
  const sourceAt = (server: ReturnType<typeof serverOf>) =>
    createBlossomSource('https://blobs.example.com', { ...server, signer });
  const stored = (sha256: string) => ({ status: 201, body: [utf8(JSON.stringify({ sha256 }))] });

  it('is signed for one blob, one server and ten minutes, and left out if the server has the blob', async () => {
    const server = serverOf({ status: 404 }, stored(blob.sha256), { status: 200 });
    const source = sourceAt(server);
    await source.store!(blob, utf8('abc'), signal);
    await source.store!(blob, utf8('abc'), signal);
    expect(server.requests.map(({ method }) => method)).toEqual(['HEAD', 'PUT', 'HEAD']);
    const { authorization } = server.requests[1]!.headers!;
    const event = JSON.parse(Buffer.from(authorization!.split(' ')[1]!, 'base64').toString());
    const now = Math.floor(server.clock.now() / 1000);
    expect(event).toMatchObject({ kind: 24_242, created_at: now, pubkey: signer.publicKey });
    expect(event.tags).toEqual([
      ['t', 'upload'],
      ['x', blob.sha256],
      ['expiration', `${now + 600}`],
      ['server', 'blobs.example.com'],
    ]);
  });

  it('is copied from another server, unless the server has the blob', async () => {
    const server = serverOf({ status: 404 }, stored(blob.sha256), { status: 200 });
    const source = sourceAt(server);
    for (let i = 0; i < 2; i++) await source.mirror(blob, 'https://other.test/x/?y#z', signal);
    const asked = server.requests.map(({ method, url }) => `${method} ${new URL(url).pathname}`);
    expect(asked).toEqual([`HEAD /${blob.sha256}`, 'PUT /mirror', `HEAD /${blob.sha256}`]);
    const { body, headers } = server.requests[1]!;
    expect(JSON.parse(new TextDecoder().decode(body))).toEqual({
      url: `https://other.test/x/${blob.sha256}`,
    });
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': `${body!.length}`,
    });
  });

  it('is believed only with the hash of the blob', async () => {
    const answers = [stored('cd'.repeat(32)), { status: 200, body: [utf8('nonsense')] }, { status: 413 }]; // biome-ignore format: one line
    for (const answer of answers) {
      const source = sourceAt(serverOf({ status: 404 }, answer));
      const { message } = await failureOf(source.store!(blob, utf8('abc'), signal));
      expect(message).toMatch(/stored another blob|answers 413/);
    }
  });

  it('has an authorization that is the same in base64url without padding and in base64', async () => {
    for (const host of ['a.example.org', 'ab.example.org', 'abc.example.org']) {
      const server = serverOf({ status: 404 }, stored(blob.sha256));
      const source = createBlossomSource(`https://${host}`, { ...server, signer });
      await source.store!(blob, utf8('abc'), signal);
      const encoded = server.requests[1]!.headers!.authorization!.replace('Nostr ', '');
      const json = Buffer.from(encoded, 'base64url');
      expect(json.toString('base64url')).toBe(encoded);
      expect(json.toString('base64')).toBe(encoded);
      expect(JSON.parse(json.toString()).tags).toContainEqual(['server', host]);
    }
  });

  it.each([
    ['a header, which comes first', { 'x-reason': 'no space' }, '{"error":"other"}', ': no space'],
    ['`error` in JSON', {}, '{"error":"token\\nexpired"}', ': token expired'],
    ['`message` in JSON', {}, '{"message":"expired","error":401}', ': expired'],
    ['a number', {}, '{"error":7}', ''],
    ['a list', {}, '["error"]', ''],
    ['null', {}, 'null', ''],
    ['a page', {}, '<html>no</html>', ''],
  ])(
    'that is refused says why, as the server states it in %s',
    async (_, headers, body, reason) => {
      const server = serverOf({ status: 404 }, { status: 401, headers, body: [utf8(body)] });
      const { message } = await failureOf(sourceAt(server).store!(blob, utf8('abc'), signal));
      expect(message).toBe(`https://blobs.example.com answers 401${reason}`);
      expect(server.cancelled()).toBe(2);
    },
  );

  it('that is refused reads at most 4 KiB of the body, and not one that breaks', async () => {
    function* endless() {
      for (;;) yield new Uint8Array(1000);
    }
    function* broken() {
      yield utf8('{"error": "no');
      throw new Error('connection lost');
    }
    for (const body of [endless(), broken()]) {
      const server = serverOf({ status: 404 }, { status: 401, body });
      const { message } = await failureOf(sourceAt(server).store!(blob, utf8('abc'), signal));
      expect(message).toBe('https://blobs.example.com answers 401');
      expect(server.read.length).toBeLessThanOrEqual(5);
    }
  });
});
