/**
 * Blossom servers of other projects: the contract of chunk sources, uploads, mirrors, a fetch from a server and a holder at
 * once, and a published run page.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { sha256Hex, systemClock } from 'nostrain/base';
import { createHttpSource, createSigner, manifestDigest, piecesOf } from 'nostrain/network';
import { createSecretKey } from 'nostrain/node';
import {
  createAskHttp,
  createFolderSource,
  packFile,
  readManifest,
  serveFolder,
} from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { afterAll, describe, expect, it } from 'vitest';
import { createBlossomSource } from '../../src/network/chunks/http-source.ts';
import { fetchFolder } from '../../src/node/checkpoint/fetch-folder.ts';
import { type Filling, testSource } from '../contract/chunk-source.ts';
import type { StartedRelay } from '../contract/relay-under-test.ts';
import { runCommand } from '../support/command-line.ts';
import { drawnBytes } from '../support/drawn-bytes.ts';
import { itWith } from '../support/needs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { blossomServers } from './blossom-servers.ts';

const clock = systemClock;
const never = new AbortController().signal;
const signer = createSigner(createSecretKey());
const ask = createAskHttp({ isTrusted: true });

/** Stores all chunks of a packed file on the server. */
async function upload(url: string, { folder, manifest }: Pick<Filling, 'folder' | 'manifest'>) {
  const source = createBlossomSource(url, { ask, clock, signer });
  const own = createFolderSource(folder);
  for (const piece of piecesOf(manifest)) {
    const parts: Uint8Array[] = [];
    for await (const part of (await own.read(piece, never))!) parts.push(part);
    await source.store!(piece, Buffer.concat(parts), never);
  }
  return source;
}

for (const { name, version, install, isInstalled, start } of blossomServers) {
  if (isInstalled()) testServer(`${name} ${version}`, start);
  else itWith(`not installed; that takes: ${install}`)(name, async () => undefined);
}

function testServer(name: string, start: () => Promise<StartedRelay>): void {
  let started: Promise<StartedRelay> | undefined;
  const address = async () => {
    started ??= start();
    return (await started).url.replace('ws:', 'http:');
  };
  afterAll(async () => (await started)?.close());

  testSource(name, { hasParity: true, listsChunks: false }, async (filling) => ({
    source: await upload(await address(), filling),
    close: async () => undefined,
  }));

  describe(name, () => {
    const at = temporaryFolder();
    const packed = async (bytes: number, seed: number) => {
      await mkdir(at(), { recursive: true });
      await writeFile(at('file'), drawnBytes(bytes, seed));
      const options = { chunkBytes: 2 ** 15, erasure: { data: 4, parity: 2 } };
      return packFile(at('file'), at('packed'), options);
    };

    it('takes what is signed for, once, and refuses the rest with a reason', async () => {
      const manifest = await packed(50_000, 77);
      const source = createBlossomSource(await address(), { ask, clock, signer });
      const piece = piecesOf(manifest)[1]!;
      expect(await source.has(piece, never)).toBe(false);
      const bytes = drawnBytes(50_000, 77).subarray(2 ** 15);
      await source.store!(piece, bytes, never);
      expect(await source.has(piece, never)).toBe(true);
      const late = createBlossomSource(await address(), { ask, clock: { ...clock, now: () => 0 }, signer }); // biome-ignore format: one line
      const other = { ...piece, sha256: 'ab'.repeat(32) };
      await expect(late.store!(other, bytes, never)).rejects.toMatchObject({
        code: 'checkpoint/place',
        message: expect.stringMatching(/answers 4\d\d: .*expired/),
      });
      await expect(source.store!(other, bytes, never)).rejects.toThrow('stored another blob');
    });

    it('fetches from a holder what it is asked to mirror', async () => {
      const manifest = await packed(60_000, 78);
      const holder = await serveFolder(at('packed'), manifest, { port: 0, host: '127.0.0.1', clock }); // biome-ignore format: one line
      const source = createBlossomSource(await address(), { ask, clock, signer });
      try {
        for (const piece of piecesOf(manifest)) {
          await source.mirror(piece, holder.url, never);
          expect(await source.has(piece, never)).toBe(true);
        }
      } finally {
        await holder.close();
      }
      await fetchFolder(manifest, at('mirrored'), { sources: [source], signal: never });
    });

    it('gives a file together with a holder, by its digest, where `push` put it', async () => {
      const manifest = await packed(600_000, 79);
      const holder = await serveFolder(at('packed'), manifest, { port: 0, host: '127.0.0.1', clock }); // biome-ignore format: one line
      const url = await address();
      const pushed = await runCommand('checkpoint', 'push', at('packed'), '--to', url, '--sec-key', '01'.repeat(32)); // biome-ignore format: one line
      expect(pushed.exitCode).toBe(0);
      try {
        const places = [createHttpSource(url, { ask, clock }), createHttpSource(holder.url, { ask, clock })]; // biome-ignore format: one line
        const { sources: reports } = await fetchFolder(manifest, at('both'), { sources: places, signal: never }); // biome-ignore format: one line
        expect(reports.every(({ chunks }) => chunks > 0)).toBe(true);
      } finally {
        await holder.close();
      }
      const got = await runCommand('checkpoint', 'fetch', manifestDigest(manifest), '--from', url, '--out', at('out')); // biome-ignore format: one line
      expect(got.exitCode).toBe(0);
      expect(got.stderr).not.toMatch(/does not answer|no longer used/);
      expect(await readManifest(at('out'))).toEqual(manifest);
    });

    it('serves the run page under the names that its manifest event gives', async () => {
      const [url, relay] = [await address(), await createRelay()];
      try {
        const flags = ['--relay', relay.url, '--sec-key', '02'.repeat(32), '--json'];
        const told = await runCommand('page', '--publish', url, ...flags);
        expect([told.exitCode, JSON.parse(told.stdout).relays]).toEqual([0, [relay.url]]);
        const files: readonly { path: string; sha256: string }[] = JSON.parse(told.stdout).files;
        expect(files.map(({ path }) => path)).toContain('/index.html');
        for (const { path, sha256 } of files) {
          const bytes = new Uint8Array(await (await fetch(`${url}/${sha256}`)).arrayBuffer());
          expect(sha256Hex(bytes), path).toBe(sha256);
        }
      } finally {
        await relay.close();
      }
    });

    it('copies the chunks of a folder from a holder for `push --mirror`', async () => {
      const manifest = await packed(70_000, 80);
      const holder = await serveFolder(at('packed'), manifest, { port: 0, host: '127.0.0.1', clock }); // biome-ignore format: one line
      const url = await address();
      try {
        const flags = ['--to', url, '--mirror', holder.url, '--sec-key', '01'.repeat(32)];
        const pushed = await runCommand('checkpoint', 'push', at('packed'), ...flags);
        expect(pushed.exitCode).toBe(0);
      } finally {
        await holder.close();
      }
      const sources = [createHttpSource(url, { ask, clock })];
      await fetchFolder(manifest, at('mirrored'), { sources, signal: never });
    });
  });
}
