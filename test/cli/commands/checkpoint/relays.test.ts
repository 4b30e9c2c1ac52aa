/** `nostrain checkpoint push`, `list` and `fetch` over relays of our own: spread, found by digest, complete although relays are gone or refuse. */
import { readFile, writeFile } from 'node:fs/promises';
import { toBase64 } from 'nostrain/base';
import { packed } from 'nostrain/kinds';
import { createSigner, manifestDigest } from 'nostrain/network';
import { createSecretKey } from 'nostrain/node';
import { readManifest } from 'nostrain/node/parts';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { drawnBytes } from '../../../support/drawn-bytes.ts';
import { publishRaw } from '../../../support/publish-raw.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const at = temporaryFolder();
const payload = drawnBytes(1_000_000);
const relays: Relay[] = [];
let digest = '';

beforeEach(async () => {
  await writeFile(at('file'), payload);
  await runCommand('checkpoint', 'pack', at('file'), '--out', at('a'), '--chunk', '100000');
  digest = manifestDigest(await readManifest(at('a')));
});
afterEach(async () => {
  for (const relay of relays.splice(0)) await relay.close();
});

async function start(options: Parameters<typeof createRelay>[0] = {}): Promise<string> {
  const relay = await createRelay({ port: 0, ...options });
  relays.push(relay);
  return relay.url;
}

const to = (urls: readonly string[]) => urls.flatMap((url) => ['--to', url]);
const from = (urls: readonly string[]) => urls.flatMap((url) => ['--from', url]);
const push = (urls: readonly string[], ...more: readonly string[]) =>
  runCommand('checkpoint', 'push', at('a'), ...to(urls), '--sec-key', '01'.repeat(32), ...more);
const fetch = (urls: readonly string[], out: string) =>
  runCommand('checkpoint', 'fetch', digest, ...from(urls), '--out', at(out), '--file', at(`${out}.file`)); // biome-ignore format: one line

describe('checkpoint push to relays', () => {
  it('spreads the chunk events, and fetch finds file and manifest by the digest alone', {
    timeout: 180_000,
  }, async () => {
    const urls = [await start(), await start(), await start()];
    const pushed = await push(urls, '--copies', '1');
    expect(pushed.exitCode).toBe(0);
    // 23 chunk events over three relays
    const counts = [...pushed.stdout.matchAll(/^(\d+) chunk events are at/gm)].map(([, count]) => Number(count)); // biome-ignore format: one line
    expect(counts).toEqual([8, 8, 7]);
    const listed = await runCommand('checkpoint', 'list', ...from(urls), '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject({
      packed: [{ folder: null, digest, bytes: payload.length, chunks: 10, here: null }],
    });
    const got = await fetch(urls, 'b');
    expect(got.exitCode, got.stderr).toBe(0);
    expect(new Uint8Array(await readFile(at('b.file')))).toEqual(payload);
    expect((await runCommand('checkpoint', 'verify', at('b'))).exitCode).toBe(0);
  });

  it('keeps copies, so that a relay may be gone; and says what nobody has', {
    timeout: 180_000,
  }, async () => {
    const urls = [await start(), await start(), await start()];
    await push(urls, '--copies', '2');
    await relays.shift()!.close();
    const got = await fetch(urls.slice(1), 'b');
    expect(got.exitCode).toBe(0);
    expect(new Uint8Array(await readFile(at('b.file')))).toEqual(payload);
    await relays.shift()!.close();
    const lost = await fetch(urls.slice(2), 'c');
    expect(lost.exitCode).toBe(1);
    expect(lost.stderr).toContain('no source has chunk');
  });

  it('gives to others what one relay refuses, and fails where all do', async () => {
    const refuses = { limits: { kinds: [packed.kind] } };
    const urls = [await start(refuses), await start()];
    const pushed = await push(urls, '--copies', '1');
    expect(pushed.exitCode).toBe(0);
    expect(pushed.stdout).toContain(`0 chunk events are at ${urls[0]} (`);
    expect(pushed.stdout).toContain(`23 chunk events are at ${urls[1]}\n`);
    const none = await push(urls.slice(0, 1));
    expect(none.exitCode).toBe(1);
    expect(none.stderr).toContain('no relay accepted 23 of 23 chunks');
  });

  it('is not misled by events that claim the digest of the manifest', async () => {
    const url = await start();
    const now = Math.floor(Date.now() / 1000);
    const signer = createSigner(createSecretKey());
    const said = { id: digest, expiration: now + 3600 };
    const lies = [
      packed.build({ ...said, data: toBase64(drawnBytes(200)) }, now),
      packed.build({ ...said, root: 'ab'.repeat(32), bytes: 50_000 }, now),
    ];
    await publishRaw(url, lies.map((draft) => signer.sign(draft))); // biome-ignore format: one line
    await push([url]);
    const got = await fetch([url], 'b');
    expect(got.exitCode, got.stderr).toBe(0);
    const listed = await runCommand('checkpoint', 'list', '--from', url, '--json');
    expect((JSON.parse(listed.stdout) as { packed: unknown[] }).packed).toHaveLength(1);
  });
});
