/** A run that starts from what another one left: its folder where there is room, and the part that `checkpoint fetch --tier` brings where there is not. */

import { join } from 'node:path';
import { createFolderSource, packFile } from 'nostrain/node/parts';
import { createRelay, type Relay } from 'nostrain/relay';
import { type SettingName, typedWords } from 'nostrain/run';
import { afterEach, expect, it } from 'vitest';
import { fetchTier } from '../../src/node/checkpoint/fetch-tier.ts';
import { runCommand } from '../support/command-line.ts';
import { type Program, startProgram, temporaryFolder } from '../support/processes.ts';
import { writeOwnRun } from '../support/tuned-run.ts';

const programs: Program[] = [];
let relay: Relay | undefined;
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  await relay?.close();
});

const sizes = { width: 32, layers: 1, heads: 2, ffn: 64, context: 16 } as const;
const flags = Object.entries(sizes).flatMap(([name, value]) =>
  typedWords(name as SettingName, `${value}`),
);
const { signal } = new AbortController();

it('goes on with the same numbers in all tiers, and writes the same text', async () => {
  const home = temporaryFolder();
  const before = await writeOwnRun(join(home, 'before'), { ...sizes, tiers: 2, tier: '0' });
  const packed = join(home, 'packed');
  const manifest = await packFile(join(before, 'state.safetensors'), packed, { chunkBytes: 2 ** 14, erasure: null }); // biome-ignore format: one line
  const file = join(home, 'quarter.safetensors');
  const places = [createFolderSource(packed)];
  await fetchTier(manifest, join(home, 'chunks'), { tier: 2, file }, { sources: places, signal });

  const text = ['--prompt', 'To be', '--length', '20', '--temperature', '0'];
  const ofFile = await runCommand('sample', file, ...flags, '--tiers', '2', ...text);
  expect(ofFile.exitCode).toBe(0);
  expect(ofFile.stdout).toBe((await runCommand('sample', before, '--tier', '2', ...text)).stdout);

  relay = await createRelay();
  const started = [before, file].map((from, index) => {
    const program = startProgram([
      ...['run-training', '--model', 'char-gpt', '--run', 'after', '--relay', relay!.url],
      ...['--tiers', '2', '--tier', index === 0 ? '0' : '2', '--start', from, ...flags],
      ...['--shard', `${index + 1}/2`, '--sync', 'strict:2', '--rounds', '1', '--inner-steps', '2'],
      ...['--dir', join(home, `after-${index}`), '--report', 'ndjson', '--device', 'cpu'],
    ]);
    programs.push(program);
    return program;
  });
  const rounds = await Promise.all(
    started.map(async (program) => {
      await program.event(({ type }) => type === 'done');
      return program.events.findLast((event) => event.type === 'round')!;
    }),
  );
  expect(rounds.map(({ accepted }) => accepted.length)).toEqual([2, 2]);
  expect(rounds[1]!.digest).toBe(rounds[0]!.digest);

  const wrong = [
    '--run',
    'wrong',
    '--relay',
    relay.url,
    '--start',
    file,
    ...flags,
    '--tiers',
    '1',
    '--sync',
    'strict:1',
  ];
  const refused = await runCommand('run-training', '--model', 'char-gpt', ...wrong, '--dir', join(home, 'wrong')); // biome-ignore format: one line
  expect(refused.stderr).toMatch(/start\/other.*another model[\s\S]*try: /);
});
