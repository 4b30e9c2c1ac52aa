/** Every kind of source that needs nothing from elsewhere, held to the same contract. */
import { readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { defaultRetry, systemClock } from 'nostrain/base';
import { type ChunkSource, createHttpSource, createSigner, planChunks } from 'nostrain/network';
import { createSecretKey, nativeSha256 } from 'nostrain/node';
import { createFolderSource, serveFolder } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createRelaySource } from '../../../src/network/attachments/relay-source.ts';
import { findManifest, openSources } from '../../../src/node/checkpoint/sources.ts';
import { createAskHttp } from '../../../src/node/net/ask-http.ts';
import { connectRelays } from '../../../src/node/net/relays.ts';
import { testSource } from '../../contract/chunk-source.ts';

const never = new AbortController().signal;
const ask = createAskHttp({ isTrusted: true });
const clock = systemClock;
const connection = { openTimeoutMs: 5000, retry: defaultRetry };

testSource('a folder', { hasParity: true, listsChunks: false }, async ({ folder }) => ({
  source: createFolderSource(folder),
  lose: ({ sha256 }) => rm(join(folder, sha256)),
  close: async () => undefined,
}));

testSource(
  'a holder server',
  { hasParity: true, listsChunks: true },
  async ({ folder, manifest }) => {
    // biome-ignore format: one line
    const server = await serveFolder(folder, manifest, { port: 0, host: '127.0.0.1', clock });
    return { source: createHttpSource(server.url, { ask, clock }), close: () => server.close() };
  },
);

testSource('a plain web server', { hasParity: true, listsChunks: false }, async ({ folder }) => {
  const server = createServer((request, response) => {
    readFile(join(folder, request.url!.replace('/files/', ''))).then(
      (bytes) => response.end(bytes),
      () => response.writeHead(404).end('no such file'),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/files/`;
  return {
    source: createHttpSource(url, { ask, clock }),
    lose: ({ sha256 }) => rm(join(folder, sha256)),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
});

testSource('relays', { hasParity: false, listsChunks: false }, async ({ manifest, payload }) => {
  const relay = await createRelay({ port: 0 });
  const signer = createSigner(createSecretKey());
  const relays = await connectRelays([relay.url], connection, signer, never);
  const createdAt = Math.floor(Date.now() / 1000);
  const plan = planChunks(payload, { createdAt, expiresAt: createdAt + 3600 });
  for (let i = 0; i < plan.count; i++) {
    await relays.publish(signer.sign(plan.draft(i)));
  }
  const named = { root: manifest.root!, bytes: manifest.bytes };
  return {
    source: createRelaySource({ name: relay.url, relay: relay.url, relays, clock, sha256: nativeSha256, payload: named }), // biome-ignore format: one line
    close: async () => {
      await relays.close();
      await relay.close();
    },
  };
});

describe('sources that strangers name', () => {
  it.each([
    ['http://127.0.0.1:8790', 'a private address'],
    ['http://[::1]:8790', 'a private address'],
    ['http://10.0.0.7', 'a private address'],
    ['http://169.254.169.254', 'a private address'],
    ['http://0x7f.1:8790', 'a private address'],
    ['https://nas.local', 'a private network name'],
    ['https://user:secret@example.com', 'a user or a query'],
    ['https://example.com:6379', 'port 6379'],
    ['wss://192.168.1.1', 'a private address'],
    ['/etc', 'a stranger named a folder'],
    ['file:///etc/passwd', 'a stranger named a folder'],
  ])('are not asked at %s', async (text, reason) => {
    const named = [{ text, isTrusted: false }];
    const { sources, refused, close } = await openSources(named, undefined, { connection, signal: never }); // biome-ignore format: one line
    await close();
    expect(sources).toEqual([]);
    expect(refused[0]!.reason).toContain(reason);
    expect(refused[0]!.name).not.toContain('secret');
  });

  it('are not asked where a name or a redirect leads inside', async () => {
    const inner = createServer((_, response) => response.end('a secret of this network'));
    await new Promise<void>((resolve) => inner.listen(0, '127.0.0.1', resolve));
    const { port } = inner.address() as AddressInfo;
    const outer = createServer((_, response) =>
      response.writeHead(302, { location: `http://127.0.0.1:${port}/` }).end(),
    );
    await new Promise<void>((resolve) => outer.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(outer.address() as AddressInfo).port}/`;
    const request = { signal: never };
    try {
      await expect(ask(address, request)).rejects.toThrow('a private address');
      const stranger = createAskHttp({ isTrusted: false });
      await expect(stranger(`http://127.0.0.1:${port}`, request)).rejects.toThrow('a private address'); // biome-ignore format: one line
      await expect(stranger(`http://localhost:${port}`, request)).rejects.toThrow('leads to a private address'); // biome-ignore format: one line
      const open = createAskHttp({ isTrusted: false, allowPrivate: true });
      expect((await open(address, request)).status).toBe(200);
      await expect(ask('ftp://example.com', request)).rejects.toThrow('not an HTTP address');
    } finally {
      for (const server of [inner, outer]) {
        server.closeAllConnections();
        server.close();
      }
    }
  });
});

describe('the search for a manifest', () => {
  afterEach(() => vi.useRealTimers());

  /** A source that sends `size` bytes a second for 40 s, or never answers a request for a manifest. */
  function slowSource(name: string, size: number | undefined, heard: string[]): ChunkSource {
    const stopped = (signal: AbortSignal) =>
      new Promise<never>((_, reject) => {
        heard.push(`${name} begins`);
        signal.addEventListener('abort', () => {
          heard.push(`${name} ends`);
          reject(signal.reason);
        });
      });
    async function* body(signal: AbortSignal) {
      const end = stopped(signal);
      for (let i = 0; i < 40; i++) {
        await Promise.race([clock.sleep(1000), end]);
        yield new Uint8Array(size!);
      }
    }
    const read = async (_: unknown, signal: AbortSignal) => body(signal);
    const findManifest = (_: string, signal: AbortSignal) => stopped(signal);
    return { name, read, ...(size === undefined && { findManifest }) };
  }

  it('asks the next source after a second, gives up a slow one after 4 s and a relay after 30 s', async () => {
    vi.useFakeTimers();
    const heard: string[] = [];
    const sources = [
      slowSource('slow', 16_000, heard),
      slowSource('relay', undefined, heard),
      slowSource('fast', 30_000, heard),
    ];
    const found = findManifest('ab'.repeat(32), sources, never).catch(({ message }) => message);
    const heardIn = async (ms: number) => {
      await vi.advanceTimersByTimeAsync(ms);
      return heard.splice(0);
    };
    expect(await heardIn(999)).toEqual(['slow begins']);
    expect(await heardIn(1)).toEqual(['relay begins']);
    expect(await heardIn(3000)).toEqual(['fast begins']);
    expect(await heardIn(1000)).toEqual(['slow ends']);
    expect(await heardIn(26_000)).toEqual([]);
    expect(await heardIn(1000)).toEqual(['relay ends']);
    await heardIn(20_000);
    expect(await found).toContain('slow is too slow; relay is too slow; fast sends other bytes');
  });
});

describe('a server that strips what looks like an ending', () => {
  it('is not taken to say which chunks it has', async () => {
    const server = createServer((_, response) => response.end('{"format":"nostrain/chunks/1"}'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(
      await createHttpSource(url, { ask, clock }).holds!('ab'.repeat(32), never),
    ).toBeUndefined();
    server.closeAllConnections();
    server.close();
  });
});

describe('a folder as a source', () => {
  it('keeps what is stored in it', async () => {
    const { mkdtemp } = await import('node:fs/promises');
    const { tmpdir } = await import('node:os');
    const folder = await mkdtemp(join(tmpdir(), 'nostrain-source-'));
    const source = createFolderSource(folder);
    const blob = { sha256: 'cd'.repeat(32), bytes: 3, offset: 0 };
    await source.store?.(blob, Uint8Array.of(1, 2, 3), never);
    expect(await readdir(folder)).toEqual([blob.sha256]);
    await rm(folder, { recursive: true });
  });
});
