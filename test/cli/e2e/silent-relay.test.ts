/** Two relays that answer and one that never says a word: commands go on with the two, and say which one they wait for. */
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { expect, it, onTestFinished } from 'vitest';
import { runProgram, temporaryFolder } from '../../support/processes.ts';

it('a run is made, joined, archived and replayed over the relays that answer', async () => {
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
  // test/network/transport/withheld-eose.test.ts holds how long they wait, on a clock of its own
  const run = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await runProgram([...args, ...urls], home);
    expect(code, stderr).toBe(0);
    return { stdout, stderr };
  };
  const file = join(home, 'run.json');
  const made = await run(
    ...['run', 'create', '--model', 'linear', '--rounds', '2', '-o', file, '--json'],
  );
  const { naddr } = JSON.parse(made.stdout);
  const wait = `waiting for an answer from ${relays[2]!.url}`;
  const joined = await run('run', 'join', naddr, '--report', 'plain');
  expect(joined.stdout).toContain(wait);
  const archived = await run('archive', '--run', naddr, '--out', join(home, 'events'));
  expect(archived.stderr).toContain(wait);
  const replayed = await run('replay', '--run', naddr);
  expect(replayed.stderr).toContain(wait);
}, 180_000);
