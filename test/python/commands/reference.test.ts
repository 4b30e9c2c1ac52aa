import { readFile, rm, writeFile } from 'node:fs/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { type Invocation, invocations, writeReferenceFiles } from '../support/reference-files.ts';

const OURS = [
  undefined,
  ...['nope', 'hash-state', 'derive-pubkey', 'init-state', 'train-local', 'convert-state'],
  ...['encode-delta', 'decode-payload', 'apply-payload', 'aggregate-payloads', 'outer-step'],
  ...['build-event', 'build-heartbeat', 'build-checkpoint', 'inspect-event'],
];
const cases = invocations.filter(({ argv }) => OURS.includes(argv[0]));

const file = temporaryFolder();
beforeEach(() => writeReferenceFiles(file()));

/** File names become paths in the folder of the test. */
const placed = (argv: readonly string[]) =>
  argv.map((word) => (/\.(?:json|txt|npz)$/.test(word) ? file(word) : word));

/** Outputs of a run that was recorded with a running clock; other tests cover them. */
const isOfThatRun = ({ argv }: Invocation) => argv.includes('ck.json') || argv.includes('cke.json');

describe('N-03: what the Python reference printed', () => {
  it('is there for every command of ours', () => {
    expect(new Set(cases.map(({ argv }) => argv[0]))).toEqual(new Set(OURS));
  });

  it.each(cases.filter((each) => !isOfThatRun(each)))(
    '$argv',
    async ({ argv, exit, stdout, files = {} }) => {
      for (const name of Object.keys(files)) await rm(file(name));
      const printed = await runCommand(...placed(argv));
      expect(printed.exitCode).toBe(exit);
      expect(printed.stdout).toBe(stdout);
      if (exit === 0) expect(printed.stderr).toBe('');
      else expect(printed.stderr).not.toBe('');
      for (const [name, text] of Object.entries(files)) {
        expect(await readFile(file(name), 'utf8')).toBe(text);
      }
    },
  );

  it('a checkpoint of a run becomes an event, which is inspected', async () => {
    const [build, inspect, inspectJson] = cases.filter(isOfThatRun);
    expect(await runCommand(...placed(build!.argv))).toEqual({
      exitCode: 0,
      stdout: build!.stdout,
      stderr: '',
    });
    const event = JSON.parse(await readFile(file('cke.json'), 'utf8'));
    const tags = Object.fromEntries(event.tags);
    const text = await runCommand(...placed(inspect!.argv));
    const json = await runCommand(...placed(inspectJson!.argv));
    /** Members that depend on the clock and on the training result. */
    const recorded = JSON.parse(inspectJson!.stdout);
    const ours = { event_id: event.id, created_at: event.created_at, model: tags.model };
    const expected = { ...recorded, ...ours, checkpoint_updated_at: 1_700_000_999 };
    expect(json.stdout).toBe(`${JSON.stringify(expected, null, 2)}\n`);
    const lines = ['event_id', 'created_at', 'model', 'checkpoint_updated_at'].reduce(
      (text, name) => text.replace(`${recorded[name]}`, `${expected[name]}`),
      inspect!.stdout,
    );
    expect(text.stdout).toBe(lines);
  });

  it('goes to a file with -o', async () => {
    const recorded = cases.find(({ argv }) => argv[0] === 'train-local')!;
    const printed = await runCommand(...placed(recorded.argv), '-o', file('out.json'));
    expect(printed).toEqual({ exitCode: 0, stdout: '', stderr: '' });
    expect(await readFile(file('out.json'), 'utf8')).toBe(recorded.stdout);
    const hash = await runCommand('hash-state', file('out.json'));
    expect(hash.stdout).toMatch(/^352d8e34ea65c65c/);
  });
});

describe('train-local', () => {
  const train = (...more: string[]) =>
    runCommand(
      'train-local',
      file('linear_initial_state.json'),
      file('linear_dataset_worker_a.json'),
      ...more,
    );

  it('takes the defaults of the reference', async () => {
    const { exitCode } = await train('--metrics-out', file('m.json'));
    const metrics = JSON.parse(await readFile(file('m.json'), 'utf8'));
    expect(exitCode).toBe(0);
    expect(metrics).toMatchObject({ steps: 500, learning_rate: 0.01, batch_size: 1 });
    expect(metrics.loss_after).toBe(0.006730054194017479);
  });

  it.each([
    [1, ['--steps', '0'], '--steps is 0; it must be at least 1'],
    [2, ['--steps', 'many'], '--steps is "many"; it must be a whole number'],
    [1, ['--learning-rate', '-1'], '--learning-rate is -1; it must be above 0'],
    [2, ['--learning-rate', 'fast'], '--learning-rate is "fast"; it must be a number'],
    [1, ['--batch-size', '99999999'], 'batch size 99999999 is more than 16777216'],
    [2, ['--batch-size', ''], '--batch-size is ""'],
    [2, ['--runtime', 'cubic'], 'Allowed choices are linear-regression, mlp-regression'],
    [2, ['--state-format', 'npz'], 'choices are auto, json, numpy-npz, pytorch-state-dict'],
    [2, ['--output-format', 'torch'], 'choices are auto, json, numpy-npz, pytorch-state-dict'],
    [2, ['--torch-checkpoint-payload', 'both'], 'choices are state-dict, module'],
    [1, ['--state-format', 'numpy-npz'], 'not a complete zip archive'],
    [1, ['--output-format', 'pytorch-state-dict'], 'try: name a file with -o'],
    [
      1,
      ['--runtime', 'mlp-regression'],
      'state is linear-regression, the requested runtime is mlp',
    ],
    [1, ['--learning-rate', '1e9'], 'try: lower the learning rate'],
    [1, ['-o', '/no/such/folder/x.json'], 'cannot write /no/such/folder/x.json'],
  ])('exits %d for %j', async (exitCode, flags, message) => {
    const printed = await train(...flags);
    expect(printed).toMatchObject({ exitCode, stdout: '' });
    expect(printed.stderr).toContain(message);
  });

  it.each([
    ['nonsense', 'is not JSON'],
    ['[]', 'dataset is not a JSON object'],
    ['{"examples":[{"inputs":[1,2,3],"target":1}]}', 'the state takes 2 inputs, the dataset has 3'],
  ])('names what is wrong with the dataset %s', async (text, message) => {
    await writeFile(file('data.json'), text);
    const state = file('linear_initial_state.json');
    const printed = await runCommand('train-local', state, file('data.json'));
    expect(printed).toMatchObject({ exitCode: 1, stdout: '' });
    expect(printed.stderr).toContain(message);
  });

  it('names files it cannot read', async () => {
    const printed = await runCommand('train-local', file('a.json'), file('b.json'));
    expect(printed.stderr).toContain(`cannot read the state ${file('a.json')}`);
    await writeFile(file('a.npz'), 'PK');
    expect((await runCommand('hash-state', file('a.npz'))).stderr).toContain('not a complete zip');
    await writeFile(file('a.json'), '{}');
    const { stderr } = await runCommand('hash-state', file('a.json'));
    expect(stderr).toContain(`${file('a.json')} is not a usable state`);
    expect(stderr).toContain('try: expected {"parameters"');
  });
});

describe('init-state', () => {
  it('takes any whole seed', async () => {
    const argv = ['--runtime', 'mlp-regression', '--features', '2', '--hidden-size', '4'];
    const seeds = ['7', '-7', '12345678901234567890'];
    const states: string[] = [];
    for (const seed of seeds) {
      states.push((await runCommand('init-state', ...argv, `--seed=${seed}`)).stdout);
    }
    expect(states[0]).toBe(states[1]);
    expect(states[2]).not.toBe(states[0]);
    const wrong = await runCommand('init-state', ...argv, '--seed', '1.5');
    expect(wrong).toMatchObject({ exitCode: 2, stdout: '' });
    expect(wrong.stderr).toContain('--seed is "1.5"; it must be a whole number');
  });
});
