/** The commands about states and local training beside the reference's: same arguments, same output, same exit code. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { python, pythonMissing } from '../python/support/python.ts';
import { runCommand } from '../support/command-line.ts';
import { describeWith } from '../support/needs.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nostrain-python-'));
  const linear = (await runCommand('init-state', '--features', '2')).stdout;
  const flags = ['--runtime', 'mlp-regression', '--features', '2', '--hidden-size', '3'];
  const mlp = (await runCommand('init-state', ...flags)).stdout;
  const examples = [
    { inputs: [1, -2], target: 3 },
    { inputs: ['0.5', 0.25], target: -1 },
    { inputs: [0, 7e-1], target: 0.125 },
  ];
  const data = (task: string) => JSON.stringify({ task, examples });
  const files = {
    'linear.json': linear,
    'mlp.json': mlp,
    'linear-data.json': data('linear-regression'),
    'mlp-data.json': data(' MLP-Regression '),
    'odd.json': '{"parameters": {"b": {"shape": [], "values": [1]}}}',
    'bad.json': '{"parameters": {}}',
    'no.json': 'nothing',
    'wide.json': '{"examples": [{"inputs": [1, 2, 3], "target": 1}]}',
    'other.json': '{"task": "other", "examples": [{"inputs": [1, 2], "target": 1}]}',
    'empty.json': '{"examples": []}',
  };
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), content);
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What the reference prints for many command lines, one process for all. */
const RUN = `
import contextlib, io, json, os, sys
from nostrain.cli import main
os.chdir(sys.argv[1])
for argv in json.loads(sys.argv[2]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = main(argv)
        except SystemExit as stop:
            code = stop.code
        except BaseException:
            code = 1
    print(json.dumps({'exitCode': code, 'stdout': out.getvalue() if code == 0 else ''}))
`;

const init = (words: string) => `init-state ${words}`;
const train = (words: string) => `train-local ${words}`;
const lines = [
  init('--features 1'),
  init('--features 3 --seed 5 --weight-scale 2 --output-format json'),
  init('--runtime mlp-regression --features 4 --hidden-size 3'),
  init('--runtime mlp-regression --features 2 --hidden-size 2 --seed -12 --weight-scale 1e-3'),
  init('--features 2 --output-format safetensor'),
  init(''),
  init('--features 0'),
  init('--features -3'),
  init('--features many'),
  init('--features 2.5'),
  init('--runtime mlp-regression --features 2'),
  init('--runtime mlp-regression --features 2 --hidden-size 0'),
  init('--runtime cubic --features 2'),
  init('--features 2 --seed x'),
  init('--runtime mlp-regression --features 2 --hidden-size 2 --weight-scale 0'),
  init('--features 2 --output-format numpy-npz'),
  init('--features 2 --output-format csv'),
  'hash-state linear.json',
  'hash-state odd.json --state-format json',
  'hash-state missing.json',
  'hash-state missing.npz',
  'hash-state missing.pt',
  'hash-state bad.json',
  'hash-state no.json',
  'hash-state linear.json --state-format numpy-npz',
  'hash-state linear.json --state-format yaml',
  'hash-state linear.json mlp.json',
  'hash-state linear.json -o missing/folder.txt',
  'hash-state',
  'convert-state mlp.json',
  'convert-state odd.json -o odd.npz',
  'convert-state odd.npz',
  'convert-state mlp.json -o mlp.pth.npz --torch-checkpoint-payload module',
  'convert-state mlp.pth.npz',
  'convert-state linear.json -o new/folder/linear.npz',
  'convert-state new/folder/linear.npz --output-format json',
  'convert-state linear.json -o misnamed --output-format numpy-npz',
  'convert-state misnamed --input-format numpy-npz',
  'convert-state linear.json -o misnamed.json --output-format pytorch-state-dict',
  'convert-state misnamed.json --input-format pytorch-state-dict',
  'convert-state misnamed',
  'convert-state odd.json -o odd.pt.npz',
  'convert-state odd.json -o odd.pth',
  'convert-state odd.json --output-format pytorch-state-dict',
  'convert-state odd.json -o missing/folder.json',
  'convert-state linear.json --torch-checkpoint-payload both',
  'convert-state mlp.pth.npz --input-format numpy-npz',
  train('linear.json linear-data.json'),
  train('linear.json linear-data.json --steps 7 --batch-size 5 --learning-rate 0.125'),
  train('linear.json linear-data.json --runtime linear-regression --metrics-out m.json'),
  train('linear.json mlp-data.json'),
  train('mlp.json linear-data.json'),
  train('mlp.json mlp-data.json --runtime linear-regression'),
  train('linear.json wide.json'),
  train('linear.json other.json'),
  train('linear.json empty.json'),
  train('linear.json no.json'),
  train('linear.json missing.json'),
  train('odd.json linear-data.json'),
  train('linear.json'),
  train('linear.json linear-data.json --steps 0'),
  train('linear.json linear-data.json --batch-size -1'),
  train('linear.json linear-data.json --learning-rate 0'),
  train('linear.json linear-data.json --learning-rate fast'),
  train('linear.json linear-data.json --backend jax'),
  train('linear.json linear-data.json --output-format numpy-npz'),
].map((line) => line.trim().split(/\s+/));

describeWith(pythonMissing)('beside the reference', () => {
  let theirs: readonly { readonly exitCode: number; readonly stdout: string }[];
  beforeAll(async () => {
    const printed = await python('-c', RUN, folder, JSON.stringify(lines));
    theirs = printed
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    await Promise.all(
      ['odd.npz', 'mlp.pth.npz', 'new', 'misnamed', 'misnamed.json', 'm.json'].map((name) =>
        rm(join(folder, name), { recursive: true }),
      ),
    );
  });

  it.each(lines.map((argv, i) => [argv.join(' '), i] as const))('%s', async (_, i) => {
    const before = process.cwd();
    process.chdir(folder);
    try {
      const { exitCode, stdout } = await runCommand(...lines[i]!);
      expect({ exitCode, stdout }).toEqual(theirs[i]);
    } finally {
      process.chdir(before);
    }
  });

  it.each(['python', 'numpy', 'torch'])('trains an mlp alike on %s', async (backend) => {
    const [state, data] = [join(folder, 'mlp.json'), join(folder, 'mlp-data.json')];
    const flags = ['--backend', backend, '--steps', '60', '--batch-size', '2', '--metrics-out'];
    const argv = ['train-local', state, data, '--learning-rate', '0.05', ...flags];
    const ours = await runCommand(...argv, join(folder, 'ours.json'));
    const printed = await python('-m', 'nostrain', ...argv, join(folder, 'theirs.json'));
    const read = async (name: string) => JSON.parse(await readFile(join(folder, name), 'utf8'));
    const [metrics, expected] = [await read('ours.json'), await read('theirs.json')];
    const losses = ({ loss_before, loss_after, ...rest }: Record<string, number>) => ({
      rest,
      numbers: [loss_before!, loss_after!],
    });
    expect(losses(metrics).rest).toEqual(losses(expected).rest);
    const values = (text: string): number[] =>
      Object.values<{ values: number[] }>(JSON.parse(text).parameters).flatMap((t) => t.values);
    const found = [...losses(metrics).numbers, ...values(ours.stdout)];
    [...losses(expected).numbers, ...values(printed)].forEach((value, k) => {
      expect(Math.abs(found[k]! - value)).toBeLessThanOrEqual(1e-9 * Math.abs(value));
    });
  });
});
