import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buildHolder, createSigner, verifyEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { toNpub } from 'nostrain/node/parts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Directory } from '../../../../src/network/directory/directory.ts';
import { directoryRoute } from '../../../../src/node/checkpoint/directory.ts';
import { runCommand } from '../../../support/command-line.ts';
import { keyOf } from '../../../support/members.ts';

const now = () => Math.floor(Date.now() / 1000);
const object = keyOf(1);
const holder = createSigner(new Uint8Array(32).fill(7), nativeCrypto);
let server: Server;
let url = '';

beforeAll(async () => {
  const directory = new Directory({
    ...{ localKey: holder.publicKey, now, crypto: nativeCrypto, allowPrivate: true },
  });
  const route = directoryRoute(directory);
  server = createServer((request, response) => void route(request, response));
  await new Promise<void>((done) => {
    server.listen(0, '127.0.0.1', done);
  });
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const offer = { region: 'asia', tier: 'known', weight: 1, classes: [], freeBytes: 0 };
  directory.localRecord = holder.sign(
    buildHolder({ ...offer, contacts: [url], held: [object] }, now(), 3600),
  );
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

const secKey = '01'.repeat(32);
const run = (...args: readonly string[]) => runCommand('directory', ...args);

describe('directory find', () => {
  it('prints where the holders of an object are', async () => {
    const asked = [object, '--directory', url, '--allow-private'];
    const { exitCode, stdout } = await run('find', ...asked);
    expect(exitCode).toBe(0);
    expect(stdout).toBe(
      `${url}  ${toNpub(holder.publicKey)}  region asia, tier known (self-reported)\n`,
    );
    const json = await run('find', ...asked, '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({
      ...{ object, by: 'holders', asks: 1, hops: 1 },
      holders: [{ key: holder.publicKey, contacts: [url] }],
    });
  });

  it('ends with 1 where nobody holds it, and asks no private address that another names', async () => {
    const other = await run('find', keyOf(2), '--directory', url, '--allow-private');
    expect([other.exitCode, other.stdout]).toEqual([1, '']);
    expect(other.stderr).toContain('no holder of this object is known');
    expect((await run('find', object, '--directory', url)).exitCode).toBe(1);
  });

  it.each([
    [['find', 'abc', '--directory', 'https://holder.example.org'], 'directory/digest'],
    [['find', object], 'flag/directory'],
    [['find', object, '--directory', 'ftp://holder.example.org'], 'use wss://'],
    [['attest', 'nobody', '--region', 'asia'], 'flag/attest'],
    [['attest', object], 'flag/attest'],
    [['attest', object, '--region', 'New York'], 'flag/attest'],
  ])('refuses %j', async (args, words) => {
    const { exitCode, stderr } = await run(...args);
    expect(exitCode).toBeGreaterThan(0);
    expect(stderr).toContain(words);
  });
});

describe('directory attest', () => {
  it('prints an event that vouches for region and tier', async () => {
    const { exitCode, stdout } = await run(
      ...['attest', object, '--region', 'asia', '--tier', 'known', '--sec-key', secKey],
    );
    expect(exitCode).toBe(0);
    const event = JSON.parse(stdout);
    expect(event).toMatchObject({ kind: 37_813, content: '{"region":"asia","tier":"known"}' });
    expect(verifyEvent(event, nativeCrypto).ok).toBe(true);
  });
});
