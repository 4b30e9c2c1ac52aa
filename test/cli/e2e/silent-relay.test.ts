/** Two relays that answer and one that never says a word: commands go on with the two, and say which one they wait for. */
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { expect, it, onTestFinished } from 'vitest';
import { runProgram, temporaryFolder } from '../../support/processes.ts';

it('a run is made, joined, archived and replayed without a minute of waiting', async () => {
  const relays = [
    await createRelay(),
    await createRelay(),
    await createRelay({ faults: { silent: true } }),
  ];
  onTestFinished(async () => {
    for (const relay of relays) await relay.close();
  });
  const urls = relays.flatMap(({ url }) => ['--relay', url]);
  const home = temporaryFolder();
  const timed = async (most: number, ...args: readonly string[]) => {
    const startedMs = Date.now();
    const { code, stdout, stderr } = await runProgram([...args, ...urls], home);
    expect(code, stderr).toBe(0);
    expect((Date.now() - startedMs) / 1000).toBeLessThan(most);
    return { stdout, stderr };
  };
  const file = join(home, 'run.json');
  const made = await timed(
    30,
    ...['run', 'create', '--model', 'linear', '--rounds', '2', '-o', file, '--json'],
  );
  const { naddr } = JSON.parse(made.stdout);
  const wait = `waiting for an answer from ${relays[2]!.url}`;
  const joined = await timed(60, 'run', 'join', naddr, '--report', 'plain');
  expect(joined.stdout).toContain(wait);
  const archived = await timed(30, 'archive', '--run', naddr, '--out', join(home, 'events'));
  expect(archived.stderr).toContain(wait);
  const replayed = await timed(30, 'replay', '--run', naddr);
  expect(replayed.stderr).toContain(wait);
}, 180_000);
