/** What `run create` says of series and pictures that will not do, and of sizes that do not fit: each with a hint, and no spec is written. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { encode } from 'fast-png';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const home = temporaryFolder();
beforeEach(() => {
  vi.stubEnv('NOSTRAIN_HOME', home());
  return () => vi.unstubAllEnvs();
});

const csv = (steps: number, change = (text: string) => text): string => {
  const rows = Array.from({ length: steps }, (_, i) => `${i},${Math.sin(i).toFixed(4)}`);
  const file = home('data.csv');
  writeFileSync(file, change(['time,level', ...rows].join('\n')));
  return file;
};

const picture = encode({ width: 9, height: 9, channels: 1, data: new Uint8Array(81).fill(7) });

/** The header is what says how large it is, with its check sum. */
const wide = Uint8Array.from(
  Buffer.from(
    '89504e470d0a1a0a0000000d49484452000186a0000186a008000000008d3954140000000049454e44ae426082',
    'hex',
  ),
);

function folder(classes: Readonly<Record<string, readonly Uint8Array[]>>): string {
  for (const [name, files] of Object.entries(classes)) {
    mkdirSync(home('pictures', name), { recursive: true });
    for (const [i, bytes] of files.entries()) {
      writeFileSync(home('pictures', name, `${i}.png`), bytes);
    }
  }
  return home('pictures');
}
const two = [picture, picture];

type CreateArguments = readonly string[];
describe('run create refuses', () => {
  const sizes = ['--context', '16', '--set', 'horizon=4'];
  it.each<[string, string, CreateArguments, () => string, RegExp]>([
    [
      ...(['a CSV with a hole', 'forecaster', sizes] as const),
      () => csv(200, (text) => text.replace(/^7,.+$/m, '7,')),
      /has an empty cell in line 9, column "level"/,
    ],
    [
      ...(['a CSV that lacks a step', 'forecaster', sizes] as const),
      () => csv(200, (text) => text.replace(/^7,.+\n/m, '')),
      /has a gap before line 9: 2 steps instead of one/,
    ],
    [
      ...(['few steps on which to evaluate', 'forecaster', sizes] as const),
      () => csv(20),
      /the series has 20 steps; a context of 16 and a horizon of 4 need at least 24/,
    ],
    [
      ...(['a context that does not divide', 'forecaster', ['--context', '20']] as const),
      () => csv(200),
      /context 20 does not divide into patches of 8[\s\S]*context, or another --set patch/,
    ],
    [
      ...(['one class only', 'vit', []] as const),
      () => folder({ cat: two }),
      /one class only, cat/,
    ],
    [
      ...(['a truncated PNG', 'vit', []] as const),
      () => folder({ cat: two, dog: [picture, picture.subarray(0, picture.length - 15)] }),
      /dog\/1\.png cannot be decoded: the file is truncated/,
    ],
    [
      ...(['a picture of 100,000 pixels a side', 'vit', []] as const),
      () => folder({ cat: two, dog: [picture, wide] }),
      /1\.png has 100000 x 100000 pixels/,
    ],
    [
      ...(['pixels that do not divide', 'vit', ['--set', 'pixels=9']] as const),
      () => folder({ cat: two, dog: two }),
      /pixels 9 does not divide into patches of 4/,
    ],
  ])('%s', async (_, model, flags, data, words) => {
    for (const name of ['--corpus', '--evaluation']) {
      const { exitCode, stderr } = await runCommand(
        ...['run', 'create', '--model', model, ...flags],
        ...[name, data(), '-o', home('run.json')],
      );
      expect(exitCode).not.toBe(0);
      expect(stderr).toMatch(words);
      expect(stderr).toContain('  try: ');
      expect(existsSync(home('run.json'))).toBe(false);
    }
  });
});
