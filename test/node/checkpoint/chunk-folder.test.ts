/** Files as chunks in folders: packed, verified, mended and joined again, and what each says of damage. */
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { sha256Hex } from 'nostrain/base';
import { type FileManifest, manifestDigest, piecesOf } from 'nostrain/network';
import { packFile, readManifest } from 'nostrain/node/parts';
import { describe, expect, it } from 'vitest';
import { findPacked } from '../../../src/node/checkpoint/folder.ts';
import { mendFolder, unpackFolder, verifyFolder } from '../../../src/node/checkpoint/unpack.ts';
import { drawnBytes } from '../../support/drawn-bytes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const at = temporaryFolder();
const payload = drawnBytes(150_000);
const erasure = { data: 3, parity: 2 };

async function packed(
  options: Partial<Parameters<typeof packFile>[2]> = {},
): Promise<FileManifest> {
  await writeFile(at('state'), payload);
  return packFile(at('state'), at('packed'), { chunkBytes: 2 ** 14, erasure, ...options });
}
const fileOf = (manifest: FileManifest, name: string): string =>
  at('packed', piecesOf(manifest).find((piece) => piece.name === name)!.sha256);
const damageOf = async (manifest: FileManifest, isQuick = false) => {
  const { damage, beyond, whole } = await verifyFolder(at('packed'), manifest, { isQuick });
  return { damage: damage.map(({ piece, what }) => `${what} ${piece.name}`), beyond, whole };
};

describe('a packed file', () => {
  it('R-14 lies as one file per chunk, called by its hash, under a manifest called by its own', async () => {
    const manifest = await packed();
    const files = await readdir(at('packed'));
    expect(files.sort()).toEqual([...piecesOf(manifest).map(({ sha256 }) => sha256), 'manifest.json'].sort()); // biome-ignore format: one line
    for (const name of files.filter((each) => each !== 'manifest.json')) {
      expect(sha256Hex(await readFile(at('packed', name)))).toBe(name);
    }
    expect(sha256Hex(await readFile(at('packed', 'manifest.json')))).toBe(manifestDigest(manifest));
    expect(await readManifest(at('packed'))).toEqual(manifest);
    expect(await findPacked(at())).toEqual([at('packed')]);
    expect(await damageOf(manifest)).toEqual({ damage: [], beyond: [], whole: true });
    await unpackFolder(at('packed'), manifest, at('again'));
    expect(sha256Hex(await readFile(at('again')))).toBe(sha256Hex(payload));
  });

  it('is the same with threads and without, and with one chunk', async () => {
    const manifest = await packed();
    expect(await packed({ threads: 2 })).toEqual(manifest);
    const { chunks, parity } = await packed({
      chunkBytes: 2 ** 20,
      erasure: { data: 4, parity: 1 },
    });
    expect([chunks.length, parity.length]).toEqual([1, 1]);
  });

  it('names every lost and every changed chunk, and parity restores them', async () => {
    const manifest = await packed();
    await rm(fileOf(manifest, 'chunk 0'));
    const bytes = await readFile(fileOf(manifest, 'chunk 4'));
    bytes[100]! ^= 1;
    await writeFile(fileOf(manifest, 'chunk 4'), bytes);
    await writeFile(fileOf(manifest, 'parity 1 of group 2'), 'short');
    const damage = ['lost chunk 0', 'changed chunk 4', 'changed parity 1 of group 2'];
    expect(await damageOf(manifest)).toEqual({ damage, beyond: [], whole: undefined });
    expect((await damageOf(manifest, true)).damage).toEqual(damage);
    const restored: string[] = [];
    const onRestored = ({ name }: { readonly name: string }) => restored.push(name);
    await unpackFolder(at('packed'), manifest, at('again'), { isMending: true, onRestored });
    expect(restored).toEqual(['chunk 0', 'chunk 4']);
    expect(sha256Hex(await readFile(at('again')))).toBe(sha256Hex(payload));
    expect((await damageOf(manifest)).damage).toEqual(['changed parity 1 of group 2']);
  });

  it('R-15 is not made again where more is lost than parity restores: a count, and no file', async () => {
    const manifest = await packed();
    for (const name of ['chunk 3', 'chunk 5', 'parity 0 of group 1']) await rm(fileOf(manifest, name)); // biome-ignore format: one line
    expect((await damageOf(manifest)).beyond).toEqual([1]);
    await expect(unpackFolder(at('packed'), manifest, at('again'))).rejects.toMatchObject({
      code: 'checkpoint/lost',
      message:
        'group 1 has 2 of 5 chunks and needs 3: chunk 3, chunk 5, parity 0 of group 1 lost or changed',
      data: { have: 2, need: 3 },
    });
    expect((await readdir(at())).sort()).toEqual(['packed', 'state']);
  });

  it('is judged by its whole in the end, whatever its chunks are', async () => {
    const manifest = await packed();
    const lying = { ...manifest, blake3: manifest.sha256 };
    expect((await damageOf(lying)).whole).toBe(false);
    await expect(unpackFolder(at('packed'), lying, at('again'))).rejects.toMatchObject({
      code: 'checkpoint/other',
    });
    const uncertified = { ...manifest, root: manifest.sha256 };
    expect((await damageOf(uncertified)).whole).toBe(false);
  });

  it('with wrong parity gets no chunk back under a wrong name', async () => {
    const manifest = await packed();
    const parity = [manifest.parity[2]!, ...manifest.parity.slice(1)];
    await rm(fileOf(manifest, 'chunk 0'));
    const mending = mendFolder(at('packed'), { ...manifest, parity });
    await expect(mending).rejects.toMatchObject({ code: 'checkpoint/parity' });
    expect((await damageOf(manifest)).damage).toEqual(['lost chunk 0']);
  });

  it('is never read through a link in place of a chunk', async () => {
    const manifest = await packed();
    await rename(fileOf(manifest, 'chunk 1'), at('elsewhere'));
    await symlink(at('elsewhere'), fileOf(manifest, 'chunk 1'));
    expect((await damageOf(manifest)).damage).toEqual(['changed chunk 1']);
  });
});

describe('what cannot be packed or read', () => {
  it('says why', async () => {
    await writeFile(at('empty'), '');
    const options = { chunkBytes: 2 ** 14, erasure: null };
    const code = (file: string, folder = at('packed')) =>
      packFile(file, folder, options).catch((error) => error.code);
    expect(await code(at('none'))).toBe('checkpoint/file');
    expect(await code(at())).toBe('checkpoint/file');
    expect(await code(at('empty'))).toBe('checkpoint/layout');
    await writeFile(at('state'), payload);
    await writeFile(at('taken'), '');
    expect(await code(at('state'), at('taken', 'below'))).toBe('run/write');
    await mkdir(at('bad'));
    await writeFile(at('bad', 'manifest.json'), '{}');
    await expect(readManifest(at('bad'))).rejects.toMatchObject({
      code: 'checkpoint/bad-manifest',
    });
    await expect(readManifest(at('none'))).rejects.toMatchObject({
      code: 'checkpoint/no-manifest',
    });
    await expect(findPacked(at('none'))).rejects.toMatchObject({ code: 'checkpoint/no-folder' });
  });

  it('leaves no half chunks behind when it is stopped', async () => {
    const aborter = new AbortController();
    const stopping = packed({ signal: aborter.signal, onProgress: () => aborter.abort(new Error('enough')) }); // biome-ignore format: one line
    await expect(stopping).rejects.toThrow('enough');
    expect((await readdir(at('packed'))).filter((name) => name.startsWith('.'))).toEqual([]);
  });
});
