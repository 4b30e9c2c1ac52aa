/** `nostrain run-training`: precisions, checkpoints on relays, tables, and what it refuses. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toHex } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../support/processes.ts';
import { secretOf } from '../support/swarm.ts';
import {
  finalDigest,
  storedEvents,
  trainingPrograms,
  workerArgs,
} from '../support/training-programs.ts';
import cli from '../vectors/cli.json' with { type: 'json' };

const { relay, start } = trainingPrograms();

describe('nostrain run-training', () => {
  it('ends each round in the same bits in half precision and in f32', async () => {
    const url = await relay();
    const pair = ['f32', 'bf16'].map((precision, index) =>
      start([
        ...workerArgs(index, url, temporaryFolder(), ['--model', 'mlp', '--rounds', '2']),
        ...['--device', 'cpu', '--precision', precision],
      ]),
    );
    const [one, other] = await Promise.all(pair.map(finalDigest));
    expect(other).toBe(one);
    const devices = pair.map(({ events }) =>
      events.flatMap((event) => (event.type === 'hello' ? [event.device] : [])),
    );
    expect(devices).toEqual([['cpu'], ['cpu bf16']]);
  });

  it('N-11: killed after round 3 of 6 and resumed from the relays, it ends in the same bits', async () => {
    const [state, data] = [join(temporaryFolder(), 's.json'), join(temporaryFolder(), 'd.json')];
    writeFileSync(state, JSON.stringify(cli.fixtures['linear_initial_state.json']));
    writeFileSync(data, JSON.stringify(cli.fixtures['linear_dataset_worker_a.json']));
    const train = (url: string, rounds: number, output: string, more: readonly string[] = []) =>
      start([
        ...['run-training', state, data, '--relay', url, '--run', 'kill', '--rounds', `${rounds}`],
        ...['--sec-key', toHex(secretOf(0)), '--inner-steps', '20', '--round-timeout', '0.5'],
        ...['--checkpoint-history', '4', '--report', 'ndjson', '-o', output, ...more],
      ]);
    const [whole, resumed] = [join(temporaryFolder(), 'a.json'), join(temporaryFolder(), 'b.json')];
    expect(await train(await relay(), 6, whole).exit).toBe(0);

    const url = await relay();
    const victim = train(url, 6, resumed);
    await victim.event((event) => event.type === 'round' && event.index === 2);
    victim.child.kill('SIGKILL');
    await victim.exit;
    const slots = (await storedEvents(url, 33335)).map(({ tags }) =>
      Number(tags.find(([name]) => name === 'next-round')?.[1]),
    );
    const done = Math.max(...slots);
    expect(await train(url, 6 - done, resumed, ['--resume-latest-checkpoint']).exit).toBe(0);
    expect(readFileSync(resumed, 'utf8')).toBe(readFileSync(whole, 'utf8'));
    const kept = await storedEvents(url, 33335);
    expect(kept.length).toBeLessThanOrEqual(4);
    expect(done).toBeGreaterThanOrEqual(2);
  });

  it('learns a column of a table from the others, each worker from its share of the rows', async () => {
    const [url, dir] = [await relay(), temporaryFolder()];
    const file = join(dir, 'flats.csv');
    const rows = Array.from({ length: 80 }, (_, i) => {
      const [x, z] = [Math.sin(i), Math.cos(3 * i)];
      return `${x},${2 * x - z + 0.5},${z}`;
    });
    writeFileSync(file, ['rooms,price,distance', ...rows].join('\n'));
    const programs = [0, 1].map((index) =>
      start(
        workerArgs(index, url, join(dir, `${index}`), ['--dataset', file, '--target', 'price']),
      ),
    );
    for (const program of programs) {
      const done = await program.event(({ type }) => type === 'done');
      if (done.type !== 'done') throw new Error('not done');
      expect(done.lossAfter).toBeLessThan(0.01 * done.lossBefore);
      expect(done.validationLoss).toBeLessThan(0.05);
    }
    const wrong = await runProgram([
      ...workerArgs(0, url, join(dir, 'wrong')),
      ...['--dataset', file, '--target', 'prize'],
    ]);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('has no column "prize"; its columns are "rooms", "price"');
  });

  it.each([
    ['nostrain/1', 32_768],
    ['nostrain/0', 65_536],
  ])(
    'refuses a relay too small for the events of %s before anything is trained',
    async (profile, maxEventBytes) => {
      const url = await relay({ maxEventBytes });
      const program = start([
        ...['run-training', '--model', 'char-gpt', '--run', 'x', '--relay', url],
        ...['--sync', 'strict:1', '--report', 'ndjson', '--set', `profile=${profile}`],
        ...['--dir', temporaryFolder()],
      ]);
      expect(await program.exit).toBe(1);
      expect(program.output.stderr).toMatch(
        /relay\/too-small.*accepts \d+ kB, the largest event of this run is about \d+ kB/,
      );
      expect(program.output.stderr).toContain('eventBudget');
    },
  );

  it('names the worker that trains another model', async () => {
    const url = await relay();
    const settings = ['--set', 'joinTimeout=12', '--rounds', '1'];
    const mine = start(workerArgs(0, url, temporaryFolder(), settings));
    const theirs = start(workerArgs(1, url, temporaryFolder(), [...settings, '--model', 'mlp']));
    expect(await mine.exit).toBe(1);
    expect(mine.output.stderr).toContain('round/no-peers');
    const told = 'started with another model (mlp, yours is linear). Neither counts the other';
    expect(mine.output.stderr).toContain(told);
    expect(mine.output.stdout).toContain(told);
    expect(mine.output.stderr).toContain('same --model');
    await theirs.exit;
  });
});
