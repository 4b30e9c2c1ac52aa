import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { systemClock } from 'nostrain/base';
import { buildHolder, createSigner } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { createAskHttp, packFile, serveFolder } from 'nostrain/node/parts';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { AskHttp } from '../../../src/network/chunks/http-source.ts';
import { Directory } from '../../../src/network/directory/directory.ts';
import type { QueryResult } from '../../../src/network/transport/query.ts';
import {
  announce,
  createDirectoryPort,
  type DirectorySearch,
  directoryRoute,
  findHolders,
} from '../../../src/node/checkpoint/directory.ts';
import { idOf, recordOf } from '../../support/directory.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const inFolder = temporaryFolder();

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});
const now = () => Math.floor(Date.now() / 1000);

async function listen(handler: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(handler!);
  servers.push(server);
  await new Promise<void>((done) => {
    server.listen(0, '127.0.0.1', done);
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function searchOf(peers: readonly string[], allowPrivate = true): DirectorySearch {
  const signal = new AbortController().signal;
  const http = createAskHttp({ isTrusted: false, allowPrivate });
  const peerHttp = createAskHttp({ isTrusted: true });
  const asking = { http, peerHttp, now, allowPrivate, signal, crypto: nativeCrypto };
  const port = createDirectoryPort(asking);
  return { relays: undefined, peers, port, now, allowPrivate, waitMs: 1000, signal };
}

/** A holder server that announces itself to the others through one of them. */
async function holder(n: number, held: readonly string[], peers: readonly string[]) {
  const signer = createSigner(new Uint8Array(32).fill(n), nativeCrypto);
  const options = { localKey: signer.publicKey, now, crypto: nativeCrypto, allowPrivate: true };
  const directory = new Directory(options);
  const route = directoryRoute(directory);
  const url = await listen((request, response) => {
    if (!route(request, response)) response.writeHead(404).end();
  });
  const offer = { region: 'europe', tier: 'known', weight: 1, classes: [], freeBytes: 0 };
  const event = signer.sign(buildHolder({ ...offer, contacts: [url], held }, now(), 3600));
  const told = await announce(event, held, directory, searchOf(peers));
  return { url, key: signer.publicKey, directory, told };
}

describe('the directory between holder servers', () => {
  it('R-16: servers that know one another by one address find who holds what', async () => {
    const objects = Array.from({ length: 8 }, (_, i) => idOf(`object ${i}`));
    const first = await holder(1, [], []);
    const others = [];
    for (const [i, object] of objects.entries())
      others.push(await holder(i + 2, [object], [first.url]));
    for (const [i, object] of objects.entries()) {
      const found = await findHolders(object, 1, searchOf([first.url]));
      expect(found.by).toBe('holders');
      expect(found.holders.map(({ key }) => key)).toEqual([others[i]!.key]);
      expect(found.hops).toBeLessThanOrEqual(3);
    }
    const nobody = await findHolders(idOf('nobody has it'), 1, searchOf([first.url]));
    expect(nobody.holders).toEqual([]);
  });

  it('forgets a contact that does not answer', async () => {
    const object = idOf('object');
    const expiresAt = now() + 3600;
    const gone = { ...recordOf('gone', [object]), contacts: ['http://127.0.0.1:1'], expiresAt };
    const first = await holder(1, [], []);
    first.directory.contacts.add(gone, now());
    const { directory } = await holder(2, [], [first.url]);
    directory.contacts.add(gone, now());
    const search = searchOf([first.url]);
    const port = { ...search.port, askAt: async () => [gone] };
    await announce(directory.localRecord!, [object], directory, { ...search, port });
    const known = directory.contacts.answer(object, now());
    expect(known.map(({ key }) => key)).toEqual([first.key]);
  });

  it('asks nobody whom a stranger names in this machine or network, unless that is allowed', async () => {
    const object = idOf('object');
    const first = await holder(1, [], []);
    await holder(2, [object], [first.url]);
    const { holders, asks } = await findHolders(object, 1, searchOf([first.url], false));
    expect([holders, asks]).toEqual([[], 0]);
  });

  it('gives up what answers for ever, too much, nonsense or elsewhere', async () => {
    let asked = 0;
    const endless = await listen((_, response) => {
      asked++;
      response.writeHead(200);
      const more = () => {
        // whoever asked is gone: the next turns belong to others
        if (!response.destroyed) response.write('x'.repeat(65_536), () => setImmediate(more));
      };
      more();
    });
    const wrong = await listen((_, response) => void response.end('<html>'));
    const away = await listen((_, response) => void response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()); // biome-ignore format: one line
    const { port } = searchOf([]);
    expect(await port.askAt(endless, idOf('x'))).toBeUndefined();
    expect(await port.askAt(wrong, idOf('x'))).toBeUndefined();
    await expect(port.askAt(away, idOf('x'))).rejects.toThrow();
    expect(asked).toBe(1);
  });

  it('gives up a request after 5 s, and asks the next address of the contact', async () => {
    vi.useFakeTimers();
    const asked: string[] = [];
    const silent: AskHttp = (url, { signal }) => {
      asked.push(new URL(url).host);
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    };
    const signal = new AbortController().signal;
    const asking = { http: silent, peerHttp: silent, now, signal, crypto: nativeCrypto };
    const port = createDirectoryPort({ ...asking, allowPrivate: false });
    const contact = { ...recordOf('a'), contacts: ['https://a.test', 'https://b.test'] };
    const event = recordOf('b').event;
    const ends = [
      port.askAt('https://c.test', idOf('x')).catch((error: Error) => error.message),
      port.tellAt('https://d.test', event).catch((error: Error) => error.message),
      port.ask(contact, idOf('x')),
      port.tell(contact, event),
    ];
    await vi.advanceTimersByTimeAsync(4999);
    expect(asked).toEqual(['c.test', 'd.test', 'a.test', 'a.test']);
    await vi.advanceTimersByTimeAsync(1);
    expect(asked.slice(4)).toEqual(['b.test', 'b.test']);
    await vi.advanceTimersByTimeAsync(5000);
    const late = 'no answer in 5000 ms';
    expect(await Promise.all(ends)).toEqual([late, late, undefined, false]);
    vi.useRealTimers();
  });

  it.each([false, true])(
    'of holders on relays, private addresses are left out unless allowed (%s)',
    async (allowPrivate) => {
      const object = idOf('object');
      const offer = { region: 'europe', tier: 'known', weight: 1, classes: [], freeBytes: 0 };
      const announced = (n: number, contacts: readonly string[]) =>
        createSigner(new Uint8Array(32).fill(n), nativeCrypto).sign(
          buildHolder({ ...offer, contacts, held: [object] }, now(), 3600),
        );
      const inside = 'http://192.168.1.1:8790';
      const outside = 'https://holder.example.org';
      const events = [announced(1, [inside]), announced(2, [inside, outside])];
      const relays = {
        query: async () => ({ events }) as unknown as QueryResult,
        publish: async () => [],
      };
      const search = { ...searchOf([], allowPrivate), relays };
      const { holders, by } = await findHolders(object, 1, search);
      expect(by).toBe('relays');
      expect(holders.flatMap(({ contacts }) => contacts).sort()).toEqual(
        allowPrivate ? [inside, inside, outside] : [outside],
      );
    },
  );

  it('takes announcements of at most 8 KiB, and says why not', async () => {
    const { url } = await holder(1, [], []);
    const put = (body: string) => fetch(`${url}/directory/`, { method: 'PUT', body });
    expect((await put('x'.repeat(10_000))).status).toBe(413);
    const refused = await put('{}');
    expect([refused.status, await refused.json()]).toEqual([400, { reason: 'unsigned' }]);
    expect((await fetch(`${url}/directory/`, { method: 'POST' })).status).toBe(405);
    expect((await fetch(`${url}/directory/xyz`)).status).toBe(404);
  });
});

describe('what nobody asked for', () => {
  it('R-20: a holder server without --announce has no directory', async () => {
    const folder = inFolder('chunks');
    await writeFile(inFolder('file'), 'x'.repeat(1000));
    const manifest = await packFile(inFolder('file'), folder, {
      chunkBytes: 16_384,
      erasure: null,
    });
    const server = await serveFolder(folder, manifest, {
      ...{ port: 0, host: '127.0.0.1', clock: systemClock },
    });
    const answer = await fetch(`${server.url}/directory/${idOf('x')}`);
    expect(answer.status).toBe(404);
    expect((await fetch(`${server.url}/directory/`, { method: 'PUT', body: '{}' })).status).toBe(
      405,
    );
    await server.close();
  });

  it('R-20: what trains and decides rounds knows nothing of holders, so that no event of a run changes', () => {
    const sources = [
      'worker',
      'certified',
      'trainer',
      'python',
      'consensus/round',
      'consensus/committee',
    ];
    const files = sources.flatMap((room) =>
      readdirSync(join('src', room), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => readFileSync(join('src', room, name), 'utf8')),
    );
    expect(files.length).toBeGreaterThan(50);
    const importing = files.filter((text) => /wire\/holders|network\/directory|consensus\/placement|\/placement\//.test(text)); // biome-ignore format: one line
    expect(importing).toEqual([]);
  });
});
