/** `nostrain checkpoint fetch`, `push` and `seed` as a person gives them. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { systemClock } from 'nostrain/base';
import { manifestDigest } from 'nostrain/network';
import { readManifest, serveFolder } from 'nostrain/node/parts';
import { beforeEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { drawnBytes } from '../../../support/drawn-bytes.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const at = temporaryFolder();
const payload = drawnBytes(100_000);
const KEY = '--sec-key';
const SECRET = '01'.repeat(32);

beforeEach(async () => {
  await writeFile(at('file'), payload);
  await runCommand('checkpoint', 'pack', at('file'), '--out', at('a'), '--chunk', '16k', '--stripe', '4/6'); // biome-ignore format: one line
});
const digestOf = async (folder: string) => manifestDigest(await readManifest(at(folder)));
const serve = async (folder: string) =>
  serveFolder(at(folder), await readManifest(at(folder)), {
    ...{ port: 0, host: '127.0.0.1', clock: systemClock },
  });

describe('checkpoint fetch', () => {
  it('gets a file by its address, and by its digest from a folder where it was pushed', async () => {
    const server = await serve('a');
    try {
      const what = `${server.url}/${await digestOf('a')}`;
      const got = await runCommand('checkpoint', 'fetch', what, '--out', at('b'), '--file', at('again')); // biome-ignore format: one line
      expect(got.exitCode).toBe(0);
      expect(got.stderr).not.toMatch(/does not answer|no longer used/);
      expect(got.stdout).toContain(`from     ${server.url}: 7 chunks, 100.0 kB, good`);
      expect(new Uint8Array(await readFile(at('again')))).toEqual(payload);
    } finally {
      await server.close();
    }
    const pushed = await runCommand('checkpoint', 'push', at('a'), '--to', at('c'), KEY, SECRET);
    expect(pushed.stdout).toBe(`11 chunks and the manifest are at ${at('c')}\ndigest   ${await digestOf('a')}\n`); // biome-ignore format: one line
    const { exitCode } = await runCommand('checkpoint', 'fetch', await digestOf('a'), '--from', at('c'), '--out', at('d'), '--seed', '0'); // biome-ignore format: one line
    expect(exitCode).toBe(0);
    expect((await runCommand('checkpoint', 'verify', at('d'), '--quick')).exitCode).toBe(1);
    expect((await runCommand('checkpoint', 'list', at('d'))).stdout).toMatch(/ 11 +7 +4\/6/);
  });

  it('says what is nowhere, and how long it may take', async () => {
    const manifest = await readManifest(at('a'));
    for (const { sha256 } of manifest.chunks.slice(0, 3)) await rm(at('a', sha256));
    const lost = await runCommand('checkpoint', 'fetch', at('a', 'manifest.json'), '--from', at('a'), '--out', at('b')); // biome-ignore format: one line
    expect(lost.exitCode).toBe(1);
    expect(lost.stderr).toContain('no source has chunk 0, chunk 1, chunk 2');
    const none = await runCommand(
      'checkpoint',
      'fetch',
      at('a', 'manifest.json'),
      '--out',
      at('b'),
    );
    expect(none.stderr).toContain('there is no source to fetch from');
    const what = await runCommand('checkpoint', 'fetch', at('nothing'), '--out', at('b'));
    expect(what.stderr).toContain('checkpoint/what');
    const gone = await runCommand('checkpoint', 'push', at('a'), '--to', at('c'), KEY, SECRET);
    expect(gone.stderr).toContain('checkpoint/lost');
  });
});
