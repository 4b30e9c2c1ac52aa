/**
 * All that is said of a training step, in one command and in turns, so that both sides of every ratio share the same minutes: char-gpt, the
 * GPT of 10 million parameters and adapters of SmolLM2, each beside PyTorch; char-gpt's matrix products alone; four processes with one
 * thread each, as the demo has them, beside one process with as many threads as there are cores.
 *
 *   NOSTRAIN_TORCH=python npm run bench:step -- [--turns 5] [--only char-gpt --only gpt-10m --only lora --only products --only processes]
 *
 * Turns are short and many. Beside the medians it prints quotients of processor time, which other programs disturb less: but PyTorch's
 * threads wait spinning, so with more than one thread that quotient flatters us. The load before and after says what to believe.
 */
import { spawn } from 'node:child_process';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { physicalCores } from 'nostrain/node/parts';
import { needSmolLM2, smolLM2Missing } from '../support/smollm2.ts';
import { type ConfigName, configs, profileGradient } from './step/profile.ts';
import { timeTorch } from './torch/peer.ts';

/** What one turn of one side says. */
interface Turn {
  readonly ms_per_step: readonly number[];
  readonly cpu_ms_per_step: number;
}

/** One of our own runs in a process of its own. */
interface WorkerTurn extends Turn {
  readonly done_at: readonly (readonly [ms: number, steps: number])[];
}

const ROWS = ['char-gpt', 'gpt-10m', 'lora', 'products', 'processes'] as const;
type Row = (typeof ROWS)[number];

const { values } = parseArgs({
  options: {
    turns: { type: 'string', default: '5' },
    only: { type: 'string', multiple: true, default: [...ROWS] },
    threads: { type: 'string', default: String(physicalCores()) },
  },
});
const turns = Number(values.turns);
const threads = Number(values.threads);
const python = process.env.NOSTRAIN_TORCH;
const rows = ROWS.filter((row) => values.only.includes(row));
const isBeside = (row: Row): boolean =>
  row !== 'lora' || (python !== undefined && smolLM2Missing === undefined);

/** Steps of a turn, those of the warm-up aside. */
const STEPS = { 'char-gpt': 24, 'gpt-10m': 8, lora: 4, together: 40 } as const;

/** How many processes the demo starts, and the sides of that row. */
const PROCESSES = 4;

async function json<T>(command: string, args: readonly string[]): Promise<T> {
  const env = { ...process.env, OMP_NUM_THREADS: String(threads), PYTHONDONTWRITEBYTECODE: '1' };
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
  let out = '';
  child.stdout.on('data', (text: Buffer) => {
    out += text.toString();
  });
  const code = await new Promise<number | null>((done) => child.on('close', done));
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}`);
  return JSON.parse(out.trim().split('\n').at(-1)!) as T;
}

const pathOf = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

const ours = (script: string, flags: readonly string[]): Promise<WorkerTurn> =>
  json(process.execPath, [
    ...['--import', 'tsx', '--conditions=nostrain:source', pathOf(script), '--one', ...flags],
  ]);

const numbers = (steps: number, own = threads): readonly string[] => [
  ...['--steps', String(steps), '--threads', String(own)],
];

/** Our side and PyTorch's, one after the other. */
async function beside(row: ConfigName | 'lora'): Promise<readonly [Turn, Turn]> {
  const steps = STEPS[row];
  if (row !== 'lora') {
    const own = await ours('./train.ts', ['--config', row, ...numbers(steps)]);
    return [own, await timeTorch({ config: row, steps, threads })];
  }
  const own = await ours('./finetune.ts', numbers(steps));
  const script = pathOf('./torch/finetune.py');
  return [own, await json<Turn>(python!, [script, needSmolLM2(), ...numbers(steps)])];
}

/** Tokens a second of `count` processes at once, while all of them train; and processor time of a step. */
async function together(count: number, own: number): Promise<{ rate: number; cpu: number }> {
  const { model, batch } = configs['char-gpt'];
  const flags = ['--config', 'char-gpt', '--optimizer', 'muon', ...numbers(STEPS.together, own)];
  const runs = await Promise.all(Array.from({ length: count }, () => ours('./train.ts', flags)));
  const from = Math.max(...runs.map(({ done_at }) => done_at[0]![0]));
  const to = Math.min(...runs.map(({ done_at }) => done_at.at(-1)![0]));
  const steps = runs.reduce(
    (sum, { done_at }) => sum + doneBy(done_at, to) - doneBy(done_at, from),
    0,
  );
  const cpu = runs.reduce((sum, { cpu_ms_per_step }) => sum + cpu_ms_per_step, 0) / count;
  return { rate: (1000 * steps * batch * model.context) / (to - from), cpu };
}

/** Steps done at a time between two reports. */
function doneBy(reports: WorkerTurn['done_at'], ms: number): number {
  const next = reports.findIndex(([at]) => at >= ms);
  const [to, after] = reports.at(next)!;
  const [from, before] = next > 0 ? reports[next - 1]! : [to, after];
  return to === from ? after : before + ((after - before) * (ms - from)) / (to - from);
}

const sorted = (list: readonly number[]): readonly number[] => [...list].sort((a, b) => a - b);
const at = (list: readonly number[], share: number): number =>
  sorted(list)[Math.floor(list.length * share)] ?? Number.NaN;
const median = (list: readonly number[]): number => at(list, 0.5);

/** The row as it stands so far: times of a step, quotients of the medians, of the quarter that was least disturbed, and of each turn. */
function print(row: string, pairs: readonly (readonly [Turn, Turn])[]): void {
  const [mine, theirs] = [0, 1].map((side) => pairs.flatMap((pair) => pair[side]!.ms_per_step));
  const over = (of: (turn: Turn) => number) => pairs.map(([a, b]) => of(a) / of(b));
  const wall = over(({ ms_per_step }) => median(ms_per_step));
  const cpu = over(({ cpu_ms_per_step }) => cpu_ms_per_step);
  const of = (share: number) =>
    `${at(mine!, share).toFixed(1)} / ${at(theirs!, share).toFixed(1)} ms = ` +
    `${(at(mine!, share) / at(theirs!, share)).toFixed(2)}`;
  console.log(
    `${row}, ${threads} threads, ours / PyTorch after ${pairs.length} turns: median ${of(0.5)}; ` +
      `lower quartile ${of(0.25)}; fastest ${of(0)}; median of turns ${median(wall).toFixed(2)} ` +
      `(${wall.map((one) => one.toFixed(2)).join(', ')}); processor time ${median(cpu).toFixed(2)}`,
  );
}

/** Milliseconds of a step's matrix products, each at its fastest, when all threads do nothing else; and of all its nodes. */
async function products(parts: number): Promise<{ readonly alone: number; readonly all: number }> {
  const nodes = await profileGradient('char-gpt', configs['char-gpt'].batch / parts, 24);
  const sum = (list: typeof nodes) => list.reduce((total, { micros }) => total + micros, 0);
  const perStep = parts / threads / 1000;
  const own = nodes.filter(({ op }) => ['Gemm', 'MatMul', 'FusedMatMul'].includes(op));
  return { alone: perStep * sum(own), all: perStep * sum(nodes) };
}

/** Parts of a batch of 32 rows, as the trainer cuts it. */
const PARTS = 4;

const load = (): string => loadavg()[0]!.toFixed(1);
console.log(`load ${load()}; ${turns} turns of ${rows.join(', ')}`);
const pairs: Record<ConfigName | 'lora', (readonly [Turn, Turn])[]> = {
  'char-gpt': [],
  'gpt-10m': [],
  lora: [],
};
const alone: number[] = [];
const everything: number[] = [];
const rates: { four: number; one: number; cpu: number }[] = [];
for (let turn = 0; turn < turns; turn++) {
  for (const row of rows) {
    if (row === 'products') {
      const found = await products(PARTS);
      alone.push(found.alone);
      everything.push(found.all);
    } else if (row === 'processes') {
      const four = await together(PROCESSES, Math.max(1, Math.floor(threads / PROCESSES)));
      const one = await together(1, threads);
      rates.push({ four: four.rate, one: one.rate, cpu: one.cpu / four.cpu });
    } else if (isBeside(row)) pairs[row].push(await beside(row));
  }
  console.log(`turn ${turn + 1}: load ${load()}`);
}
for (const row of ['char-gpt', 'gpt-10m', 'lora'] as const) {
  if (pairs[row].length > 0) print(row, pairs[row]);
}
if (alone.length > 0) {
  const [floor, all] = [Math.min(...alone), Math.min(...everything)];
  const own = pairs['char-gpt'].flatMap(([{ ms_per_step }]) => ms_per_step);
  const step = own.length === 0 ? '' : `; a step takes ${(median(own) / floor).toFixed(2)} of them`;
  console.log(
    `char-gpt's matrix products alone: ${floor.toFixed(1)} ms a step at ${threads} threads, ` +
      `all nodes of the gradient ${all.toFixed(1)} (${(all / floor).toFixed(2)})${step}`,
  );
}
if (rates.length > 0) {
  const quotients = rates.map(({ four, one }) => four / one);
  const cpu = median(rates.map((rate) => rate.cpu));
  console.log(
    `${PROCESSES} processes with one thread each / one with ${threads}, tokens a second: ` +
      `${Math.round(median(rates.map(({ four }) => four)))} / ${Math.round(median(rates.map(({ one }) => one)))}, ` +
      `median of turns ${median(quotients).toFixed(2)} (${quotients.map((one) => one.toFixed(2)).join(', ')}); ` +
      `tokens by processor time ${cpu.toFixed(2)}`,
  );
}
console.log(`load ${load()}`);
