import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createRelay, type Relay } from '../../relay/server.ts';
import { systemClock } from '../../src/base/async.ts';
import { toHex } from '../../src/base/bytes.ts';
import type { SignedEvent } from '../../src/network/event.ts';
import { createRelaySet } from '../../src/network/transport/relay-set.ts';
import { nativeCrypto } from '../../src/node/native/event-crypto.ts';
import { openSocket } from '../../src/node/net/relays.ts';
import { type Program, runProgram, startProgram, temporaryFolder } from '../support/processes.ts';
import { secretOf } from '../support/swarm.ts';
import cli from '../vectors/cli.json' with { type: 'json' };

const relays: Relay[] = [];
const programs: Program[] = [];
async function relay(): Promise<string> {
  const one = await createRelay();
  relays.push(one);
  return one.url;
}
function start(args: readonly string[], home?: string): Program {
  const program = startProgram(args, home);
  programs.push(program);
  return program;
}
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  for (const one of relays.splice(0)) await one.close();
});

/** Worker `index` of two, with a key of its own that never changes. */
const worker = (index: number, url: string, dir: string, more: readonly string[] = []) => [
  ...['run-training', '--model', 'linear', '--run', 'pair', '--relay', url, '--dir', dir],
  ...['--sec-key', toHex(secretOf(index)), '--shard', `${index + 1}/2`, '--sync', 'strict:2'],
  ...['--rounds', '6', '--inner-steps', '40', '--report', 'ndjson', ...more],
];

/** Everything of a kind the relay holds. */
async function stored(url: string, kind: number): Promise<SignedEvent[]> {
  const set = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
  const events: SignedEvent[] = [];
  await set.ready();
  await new Promise<void>((resolve) => {
    set.subscribe([{ kinds: [kind] }], {
      onEvent: (event) => events.push(event),
      onCaughtUp: () => resolve(),
    });
  });
  await set.close();
  return events;
}

const digestOf = async (program: Program): Promise<string> => {
  const done = await program.event(({ type }) => type === 'done');
  return done.type === 'done' ? done.digest : '';
};

describe('nostrain run-training', () => {
  it('ends each round in the same bits in half precision and in f32', async () => {
    const url = await relay();
    const pair = ['f32', 'bf16'].map((precision, index) =>
      start([
        ...worker(index, url, temporaryFolder(), ['--model', 'mlp', '--rounds', '2']),
        ...['--device', 'cpu', '--precision', precision],
      ]),
    );
    const [one, other] = await Promise.all(pair.map(digestOf));
    expect(other).toBe(one);
    const devices = pair.map(({ events }) =>
      events.flatMap((event) => (event.type === 'hello' ? [event.device] : [])),
    );
    expect(devices).toEqual([['cpu'], ['cpu bf16']]);
  });

  it('N-11: killed after round 3 and started again, it ends in the bits of an uninterrupted run', async () => {
    const asReference = ['--set', 'profile=nostrain/0'];
    const steady = await relay();
    const whole = [0, 1].map((index) =>
      start(worker(index, steady, temporaryFolder(), asReference)),
    );
    const [want] = await Promise.all(whole.map(digestOf));

    const url = await relay();
    const dir = temporaryFolder();
    const other = start(worker(0, url, temporaryFolder(), asReference));
    const victim = start(worker(1, url, dir, asReference));
    await victim.event((event) => event.type === 'round' && event.index === 2);
    victim.child.kill('SIGKILL');
    await victim.exit;
    const again = start(worker(1, url, dir, asReference));
    expect(await digestOf(again)).toBe(want);
    expect(await digestOf(other)).toBe(want);
    const hello = again.events.find((event) => event.type === 'hello');
    expect(hello?.round).toBeGreaterThanOrEqual(3);

    // the state of four numbers fits an event, so checkpoints are there: four slots a worker at most
    const checkpoints = await stored(url, 33335);
    expect(checkpoints.length).toBeGreaterThan(0);
    expect(checkpoints.length).toBeLessThanOrEqual(8);
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
    const slots = (await stored(url, 33335)).map(({ tags }) =>
      Number(tags.find(([name]) => name === 'next-round')?.[1]),
    );
    const done = Math.max(...slots);
    expect(await train(url, 6 - done, resumed, ['--resume-latest-checkpoint']).exit).toBe(0);
    expect(readFileSync(resumed, 'utf8')).toBe(readFileSync(whole, 'utf8'));
    const kept = await stored(url, 33335);
    expect(kept.length).toBeLessThanOrEqual(4);
    expect(done).toBeGreaterThanOrEqual(2);
  });

  it('N-20: Ctrl-C says goodbye on the relay, saves, and prints the line that goes on', async () => {
    const url = await relay();
    const program = start(worker(0, url, temporaryFolder()));
    await program.event((event) => event.type === 'waiting');
    program.child.kill('SIGINT');
    expect(await program.exit).toBe(130);
    expect(program.output.stderr).toMatch(/go on with: .* run-training --model linear/);
    const [heartbeat] = await stored(url, 37811);
    expect(JSON.parse(heartbeat?.content ?? '')).toMatchObject({ round: 0, status: 'leaving' });
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
      start(worker(index, url, join(dir, `${index}`), ['--dataset', file, '--target', 'price'])),
    );
    for (const program of programs) {
      const done = await program.event(({ type }) => type === 'done');
      if (done.type !== 'done') throw new Error('not done');
      expect(done.lossAfter).toBeLessThan(0.01 * done.lossBefore);
      expect(done.validationLoss).toBeLessThan(0.05);
    }
    const wrong = await runProgram([
      ...worker(0, url, join(dir, 'wrong')),
      ...['--dataset', file, '--target', 'prize'],
    ]);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('has no column "prize"; its columns are "rooms", "price"');
  });

  it('trains a small GPT on a text of ours, which then writes', async () => {
    const [url, dir] = [await relay(), temporaryFolder()];
    const corpus = join(dir, 'text.txt');
    writeFileSync(corpus, 'the cat sat on the mat and the dog ran to the cat \u00e9\n'.repeat(80));
    const sizes = [
      '--set',
      'width=16',
      '--set',
      'layers=1',
      '--set',
      'heads=2',
      '--context',
      '16',
      '--set',
      'ffn=32',
    ];
    const program = start([
      ...['run-training', '--model', 'gpt', '--run', 'mine', '--relay', url, '--sync', 'strict:1'],
      ...['--corpus', corpus, '--rounds', '2', '--inner-steps', '20', '--batch-size', '4'],
      ...['--dir', join(dir, 'run'), '--report', 'ndjson', '--set', 'warmupSteps=0', ...sizes],
    ]);
    expect(await program.exit).toBe(0);
    const rounds = program.events.filter((event) => event.type === 'round');
    expect(rounds[1]!.validationLoss!).toBeLessThan(rounds[0]!.validationLoss!);
    expect(rounds[1]!.sample!.length).toBeGreaterThan(50);
    const replaced = program.events.some(
      (event) => event.type === 'notice' && /became spaces/.test(event.message),
    );
    expect(replaced).toBe(true);

    const written = await runProgram([
      'sample',
      join(dir, 'run'),
      '--length',
      '40',
      '--prompt',
      'the ',
    ]);
    expect(written.code).toBe(0);
    expect(written.stdout.startsWith('the ')).toBe(true);
    const again = await runProgram([
      'sample',
      join(dir, 'run'),
      '--length',
      '40',
      '--prompt',
      'the ',
    ]);
    expect(again.stdout).toBe(written.stdout);
  });

  it.each([
    ['nostrain/1', 32_768],
    ['nostrain/0', 65_536],
  ])(
    'refuses a relay too small for the events of %s before anything is trained',
    async (profile, maxEventBytes) => {
      const small = await createRelay({ maxEventBytes });
      relays.push(small);
      const program = start([
        ...['run-training', '--model', 'char-gpt', '--run', 'x', '--relay', small.url],
        ...['--sync', 'strict:1', '--report', 'ndjson', '--set', `profile=${profile}`],
        ...['--dir', temporaryFolder()],
      ]);
      expect(await program.exit).toBe(1);
      expect(program.output.stderr).toMatch(
        /relay\/too-small.*takes \d+ kB, the largest event of this run is about \d+ kB/,
      );
      expect(program.output.stderr).toContain('eventBudget');
    },
  );

  it('names the worker that trains another model', async () => {
    const url = await relay();
    const settings = ['--set', 'joinTimeout=12', '--rounds', '1'];
    const mine = start(worker(0, url, temporaryFolder(), settings));
    const theirs = start(worker(1, url, temporaryFolder(), [...settings, '--model', 'mlp']));
    expect(await mine.exit).toBe(1);
    expect(mine.output.stderr).toContain('round/no-peers');
    const told = 'started with another model (mlp, yours is linear). Neither counts the other';
    expect(mine.output.stderr).toContain(told);
    expect(mine.output.stdout).toContain(told);
    expect(mine.output.stderr).toContain('same --model');
    await theirs.exit;
  });
});
