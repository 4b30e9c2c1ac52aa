/** `nostrain checkpoint pack`, `verify`, `unpack` and `list` as a person gives them. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { drawnBytes } from '../../../support/drawn-bytes.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const at = temporaryFolder();
const payload = drawnBytes(100_000);

async function pack(...more: readonly string[]): Promise<string> {
  await writeFile(at('state'), payload);
  const packed = await runCommand(
    'checkpoint',
    'pack',
    at('state'),
    '--out',
    at('chunks'),
    ...more,
  );
  expect(packed).toMatchObject({ exitCode: 0, stderr: '' });
  return packed.stdout;
}

describe('checkpoint', () => {
  it('packs, verifies, lists and unpacks', async () => {
    const told = await pack('--chunk', '16k', '--stripe', '4/6');
    expect(told).toMatch(/^digest {3}[0-9a-f]{64}\nbytes {4}100,000 in 7 chunks of 16.4 kB\n/);
    expect(told).toContain('parity   4 chunks, 66 % more: any 4 of 6 restore the rest');
    const verified = await runCommand('checkpoint', 'verify', at('chunks'));
    expect(verified).toMatchObject({ exitCode: 0, stdout: 'all 11 chunks are valid, and so is the whole file\n' }); // biome-ignore format: one line
    const { packed } = JSON.parse((await runCommand('checkpoint', 'list', at(), '--json')).stdout);
    expect(packed).toMatchObject([{ folder: at('chunks'), bytes: 100_000, chunks: 11, here: 11, stripe: { k: 4, n: 6 } }]); // biome-ignore format: one line
    expect((await runCommand('checkpoint', 'list', at())).stdout).toContain(packed[0].digest);
    const out = await runCommand('checkpoint', 'unpack', at('chunks'), '--out', at('again'));
    expect(out.exitCode).toBe(0);
    expect(new Uint8Array(await readFile(at('again')))).toEqual(payload);
  });

  it('exits with 1 and names what is lost, which unpack restores', async () => {
    await pack('--chunk', '16384', '--stripe', '4/6');
    const { damage: none } = JSON.parse((await runCommand('checkpoint', 'verify', at('chunks'), '--json')).stdout); // biome-ignore format: one line
    expect(none).toEqual([]);
    const manifest = JSON.parse(await readFile(at('chunks', 'manifest.json'), 'utf8'));
    await rm(at('chunks', manifest.chunks[2][1]));
    const { exitCode, stdout } = await runCommand('checkpoint', 'verify', at('chunks'));
    expect(exitCode).toBe(1);
    expect(stdout).toBe(
      `lost     chunk 2  ${manifest.chunks[2][1]}\n1 of 11 chunks are missing or changed; \`checkpoint unpack\` restores them from parity\n`,
    );
    const out = await runCommand('checkpoint', 'unpack', at('chunks'), '--out', at('again'), '--mend'); // biome-ignore format: one line
    expect(out.stderr).toBe(`restored chunk 2  ${manifest.chunks[2][1]}\n`);
    expect((await runCommand('checkpoint', 'verify', at('chunks'), '--quick')).stdout).toBe('all 11 chunks are valid\n'); // biome-ignore format: one line
  });

  it.each([
    [['pack', 'state', '--out', 'x', '--chunk', '1k'], '--chunk is "1k"'],
    [['pack', 'state', '--out', 'x', '--stripe', '6/4'], '--stripe is "6/4"'],
    [['pack', 'state', '--out', 'x', '--stripe', 'half'], '--stripe is "half"'],
  ])('refuses %j as a wrong command line', async (args, words) => {
    const { exitCode, stderr } = await runCommand('checkpoint', ...args);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(words);
    expect(stderr).toContain('try:');
  });

  it('says where there is nothing', async () => {
    expect((await runCommand('checkpoint', 'list', at())).stdout).toContain('no chunked files in');
    const { exitCode, stderr } = await runCommand('checkpoint', 'verify', at());
    expect(exitCode).toBe(1);
    expect(stderr).toContain('checkpoint/no-manifest');
  });
});
