/**
 * PyTorch as a peer for speed: makes a virtual environment of its own in `.bench/torch` and times train.py in it.
 *
 *   npx tsx test/bench/torch/peer.ts [--config char-gpt|gpt-10m] [--steps N] [--threads T] [--all]
 *
 * The default wheel is large (5 GB unpacked on Linux, CUDA included). pip reads its own settings, so `PIP_INDEX_URL`
 * or `PIP_EXTRA_INDEX_URL` select another wheel, for example one for the CPU only, and `NOSTRAIN_TORCH=/path/python`
 * selects an interpreter that already has PyTorch. `--all` times every eager variant, to see which one is the peer.
 */
import { execFile, spawn } from 'node:child_process';
import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const torchVersion = '2.15.0';

/** What train.py prints. */
export interface TorchReport {
  readonly config: string;
  readonly parameters: number;
  readonly batch: number;
  readonly threads: number;
  readonly attention: 'sdpa' | 'plain';
  readonly adamw: 'fused' | 'foreach' | 'loop';
  readonly compiled: boolean;
  readonly median_ms: number;
  readonly tokens_per_second: number;
  readonly ms_per_step: readonly number[];
  /** Processor time of all threads, in milliseconds a step. */
  readonly cpu_ms_per_step: number;
  readonly losses: readonly number[];
  readonly peak_rss_mb: number;
  readonly torch: string;
  readonly cpu: string;
  readonly python: string;
}

export interface TorchOptions {
  readonly config: 'char-gpt' | 'gpt-10m';
  readonly steps: number;
  readonly threads: number;
  readonly batch?: number;
  readonly attention?: TorchReport['attention'];
  readonly adamw?: TorchReport['adamw'];
  readonly corpus?: string;
  readonly compile?: boolean;
}

const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));
const environment = resolve(here, '../../../.bench/torch');

/** The interpreter that has PyTorch; installs it first when it is not there, which takes minutes. */
async function torchPython(): Promise<string> {
  const chosen = process.env.NOSTRAIN_TORCH;
  if (chosen) return chosen;
  const python = join(
    environment,
    process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python',
  );
  if (await hasTorch(python)) return python;
  console.error(`installing torch ${torchVersion} into ${environment}, once`);
  await inherit('python3', ['-m', 'venv', environment]);
  await inherit(python, ['-m', 'pip', 'install', '--quiet', `torch==${torchVersion}`]);
  return python;
}

async function hasTorch(python: string): Promise<boolean> {
  try {
    await access(python);
    const { stdout } = await run(python, [
      '-W',
      'ignore',
      '-c',
      'import torch; print(torch.__version__)',
    ]);
    return stdout.split('+')[0]!.trim() === torchVersion;
  } catch {
    return false;
  }
}

const inherit = (command: string, args: readonly string[]): Promise<void> =>
  new Promise((done, fail) => {
    const child = spawn(command, args, { stdio: ['ignore', 2, 2] });
    child.on('error', fail);
    child.on('exit', (code) =>
      code === 0 ? done() : fail(new Error(`${command} ${args.join(' ')} ended with ${code}`)),
    );
  });

/** Times PyTorch in a process of its own. */
export async function timeTorch(options: TorchOptions): Promise<TorchReport> {
  const { compile, ...flags } = options;
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  if (compile) args.push('--compile');
  const env = {
    ...process.env,
    OMP_NUM_THREADS: String(options.threads),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const { stdout } = await run(await torchPython(), [join(here, 'train.py'), ...args], { env });
  return JSON.parse(stdout) as TorchReport;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      config: { type: 'string', default: 'char-gpt' },
      steps: { type: 'string', default: '20' },
      threads: { type: 'string', default: '2' },
      all: { type: 'boolean', default: false },
    },
  });
  const config = values.config === 'gpt-10m' ? 'gpt-10m' : 'char-gpt';
  const common = { config, steps: Number(values.steps), threads: Number(values.threads) } as const;
  const variants: Partial<TorchOptions>[] = [{ attention: 'sdpa', adamw: 'fused' }];
  if (values.all) {
    variants.push(
      { attention: 'sdpa', adamw: 'foreach' },
      { attention: 'sdpa', adamw: 'loop' },
      { attention: 'plain', adamw: 'fused' },
    );
  }
  console.log('config\tthreads\tattention\tadamw\tmedian ms\tmin ms\ttokens/s\tpeak MB\ttorch');
  for (const variant of variants) {
    const report = await timeTorch({ ...common, ...variant });
    const { threads, attention, adamw, median_ms, tokens_per_second, peak_rss_mb, torch } = report;
    const fastest = Math.min(...report.ms_per_step);
    const row = [config, threads, attention, adamw, median_ms, fastest];
    console.log([...row, tokens_per_second, peak_rss_mb, torch].join('\t'));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
