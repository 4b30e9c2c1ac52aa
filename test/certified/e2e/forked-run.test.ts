/** A run is forked after a round without a stored checkpoint, two workers train the fork, and a replay rebuilds the parent. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex } from 'nostrain/base';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const keyOf = (number: number) => ['--sec-key', toHex(new Uint8Array(32).fill(number))];
const [ANNA, BEA] = [1, 2];

it('N-65: `run fork --at`, two rounds of the fork by two processes, and a replay that verifies the root of the parent', {
  timeout: 240_000,
}, async () => {
  const [relay, home] = [await createRelay(), temporaryFolder()];
  const privately = ['--allow-private-relays'];
  const train = async (naddr: string, name: string) => {
    const programs = [ANNA, BEA].map((number) =>
      startProgram([
        ...['run', 'join', naddr, ...privately, '--report', 'ndjson', ...keyOf(number)],
        ...['--dir', join(home, `${name}-${number}`), '--heartbeat-interval', '5'],
        ...['--set', 'waitFor=2', '--threads', '1', '--device', 'cpu'],
      ]),
    );
    for (const { exit, output } of programs) expect(await exit, output.stderr).toBe(0);
    return programs.map(({ events }) =>
      events.flatMap((event) => (event.type === 'round' ? [event.certified!.root] : [])),
    );
  };
  const invited = signerOf(BEA).publicKey;
  const made = await runProgram([
    ...['run', 'create', '--model', 'mlp', '--rounds', '4', '--relay', relay.url, '--json'],
    ...['-o', join(home, 'parent.json'), '--name', 'parent', ...keyOf(ANNA), '--founder', invited],
  ]);
  expect(made.code, made.stderr).toBe(0);
  const { naddr: parent, run } = JSON.parse(made.stdout);
  const [roots, others] = await train(parent, 'parent');
  expect(others).toEqual(roots);
  expect(roots).toHaveLength(4);

  const forked = await runProgram([
    ...['run', 'fork', parent, ...privately, '--at', '2', '--rounds', '2', '--json'],
    ...['-o', join(home, 'child.json'), ...keyOf(ANNA), '--founder', invited],
  ]);
  expect(forked.code, forked.stderr).toBe(0);
  const { naddr: child, file } = JSON.parse(forked.stdout);
  const { parent: lineage } = JSON.parse(await readFile(file, 'utf8'));
  expect(lineage).toMatchObject({ run, rounds: 2, root: roots![1] });
  const [after] = await train(child, 'child');
  expect(after).toHaveLength(2);

  // the parent comes from the relay: it has no checkpoint of round 2, so its rounds are replayed
  const replayed = await runProgram(['replay', '--run', child, ...privately, '--json']);
  expect(replayed.code, replayed.stderr).toBe(0);
  expect(JSON.parse(replayed.stdout)).toMatchObject({
    ok: true,
    rounds: 2,
    modelRoot: after!.at(-1),
  });
  await relay.close();
});
