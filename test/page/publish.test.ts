/** `nostrain page --publish`: every file lies on the servers under its hash, and one signed event on the relays says what the site is. */
import { createHash } from 'node:crypto';
import { systemClock, toHex } from 'nostrain/base';
import { createRelaySet, verifyEvent } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { describe, expect, it } from 'vitest';
import { keyLabel, publishSite } from '../../src/cli/commands/page/publish.ts';
import { siteHash } from '../../src/social/sites.ts';
import { connectionOf } from '../../src/terminal/connection.ts';
import { startBlossomServer } from '../support/blossom-server.ts';
import { runCommand } from '../support/command-line.ts';
import { signerOf } from '../support/signers.ts';

const signer = signerOf(31);
const files = new Map([
  ['index.html', new TextEncoder().encode('<!doctype html><title>it</title>')],
  ['page.js', new TextEncoder().encode('export {}')],
]);
const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

async function published(url: string, of: object = { kinds: [35_128], '#d': ['nostrain'] }) {
  const relays = createRelaySet([url], { openSocket, clock: systemClock });
  await relays.ready();
  const filter = { kinds: [], authors: [signer.publicKey], ...of };
  const { signal } = new AbortController();
  const { events } = await relays.query([filter], { waitMs: 10_000, signal });
  await relays.close();
  return events;
}

describe('a published page', () => {
  it('has its files on the server, as what they are, and a manifest that a host can follow', async () => {
    const [relay, server] = [await createRelay(), await startBlossomServer()];
    const options = {
      ...{ site: 'nostrain', title: 'a run', servers: [server.url], relays: [relay.url], signer },
      connection: connectionOf({ timeout: 10 }),
      signal: new AbortController().signal,
    };
    const split = {
      run: `37810:${signer.publicKey}:${'ab'.repeat(32)}`,
      shares: [{ key: signerOf(2).publicKey, weight: 3 }],
    };
    const told = await publishSite(files, { ...options, split });
    // nothing is uploaded twice
    await publishSite(files, { ...options, split });
    expect(server.uploaders).toEqual([signer.publicKey, signer.publicKey]);
    const [event] = await published(relay.url);
    expect(verifyEvent(event!).ok).toBe(true);
    expect(event!.content).toBe('');
    const paths = [...files].map(([name, bytes]) => ['path', `/${name}`, hashOf(bytes)]);
    expect(event!.tags).toEqual([
      ['d', 'nostrain'],
      ...paths,
      ['x', siteHash(told.files), 'aggregate'],
      ['server', server.url],
      ['title', 'a run'],
      ['app', `31990:${signer.publicKey}:nostrain`, relay.url],
      ['a', split.run, relay.url],
      ['zap', signerOf(2).publicKey, relay.url, '3'],
    ]);
    expect(told.event).toEqual(event);
    const snapshots = await published(relay.url, { kinds: [5128], ids: [told.snapshot] });
    expect(snapshots[0]!.tags[0]).toEqual(['a', `35128:${signer.publicKey}:nostrain`, relay.url]);
    for (const [, path, sha256] of paths) {
      const answer = await fetch(`${server.url}/${sha256}`);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      expect(bytes).toEqual(files.get(path!.slice(1)));
      const type = path === '/index.html' ? 'text/html' : 'text/javascript';
      expect(answer.headers.get('content-type')).toMatch(type);
    }
    expect(told.label).toBe(`${keyLabel(signer.publicKey)}nostrain`);
    await Promise.all([relay.close(), server.close()]);
  });

  it('is named by its key in 50 letters of base 36', () => {
    const key = '266815e0c9210dfa324c6cba3573b14bee49da4209a9456f9484e5106cd408a5';
    const label = keyLabel(key);
    expect(label).toMatch(/^[0-9a-z]{50}$/);
    const back = [...label].reduce(
      (sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)),
      0n,
    );
    expect(back.toString(16).padStart(64, '0')).toBe(key);
    expect(keyLabel(`${'00'.repeat(31)}01`)).toBe('1'.padStart(50, '0'));
  });

  it('is refused without a relay, and under a name that no host can serve', async () => {
    const key = ['--sec-key', toHex(new Uint8Array(32).fill(31))];
    const server = ['--publish', 'https://blossom.example.org'];
    const relay = ['--relay', 'wss://relay.example.org'];
    const page = (...flags: readonly string[]) => runCommand('page', ...server, ...key, ...flags);
    expect((await page()).stderr).toContain('needs a relay');
    for (const site of ['', 'Nostrain', 'a-', 'fourteen-chars']) {
      expect((await page(...relay, '--site', site)).stderr, site).toContain(
        'is not a valid site name',
      );
    }
  });
});
