/** Chunks and manifests of `nostrain checkpoint pack`, hashed by programs nobody here wrote: b3sum, or Python with the blake3 package. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { manifestDigest, piecesOf } from 'nostrain/network';
import { packFile } from 'nostrain/node/parts';
import { afterAll, expect } from 'vitest';
import { drawnBytes } from '../support/drawn-bytes.ts';
import { describeWith, itWith } from '../support/needs.ts';

const folder = mkdtempSync(join(tmpdir(), 'nostrain-chunks-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

const python = process.env.NOSTRAIN_PYTHON ?? 'python3';
const HASHES = `
import blake3, hashlib, sys
for name in sys.argv[1:]:
    data = open(name, 'rb').read()
    print(blake3.blake3(data).hexdigest(), hashlib.sha256(data).hexdigest())
`;
const run = (program: string, ...args: readonly string[]): string =>
  execFileSync(program, [...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
const has = (program: string, ...args: readonly string[]): boolean => {
  try {
    return run(program, ...args) !== undefined;
  } catch {
    return false;
  }
};
const toolsMissing = has('b3sum', '--version') && has('sha256sum', '--version') ? undefined : 'there is no b3sum'; // biome-ignore format: one line
const pythonMissing = has(python, '-c', 'import blake3') ? undefined : `${python} has no blake3`;

async function packed() {
  await writeFile(join(folder, 'state'), drawnBytes(3_000_000));
  const out = join(folder, 'chunks');
  const manifest = await packFile(join(folder, 'state'), out, {
    ...{ chunkBytes: 2 ** 18, erasure: { data: 4, parity: 2 } },
  });
  const files = piecesOf(manifest).map(({ sha256 }) => join(out, sha256));
  return {
    files: [...files, join(folder, 'state'), join(out, 'manifest.json')],
    expected: [...piecesOf(manifest), manifest].map(({ blake3, sha256 }) => [blake3, sha256]),
    digest: manifestDigest(manifest),
  };
}

describeWith(undefined)('R-14 hashes of chunks, parity, the whole and the manifest', () => {
  itWith(pythonMissing)('are those of hashlib and of the blake3 package of Python', async () => {
    const { files, expected, digest } = await packed();
    const lines = run(python, '-c', HASHES, ...files).trim().split('\n').map((line) => line.split(' ')); // biome-ignore format: one line
    expect(lines.slice(0, -1)).toEqual(expected);
    expect(lines.at(-1)![1]).toBe(digest);
  });

  itWith(toolsMissing)('are those of b3sum and sha256sum', async () => {
    const { files, expected, digest } = await packed();
    const by = (program: string) => run(program, ...files).trim().split('\n').map((line) => line.slice(0, 64)); // biome-ignore format: one line
    expect(by('b3sum').slice(0, -1)).toEqual(expected.map(([blake3]) => blake3));
    expect(by('sha256sum')).toEqual([...expected.map(([, sha256]) => sha256), digest]);
  });
});
