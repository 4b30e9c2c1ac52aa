/**
 * The Python reference and this library, operation by operation, on the same inputs and in turns.
 *
 *   npm run bench:reference -- [PYTHON CHECKOUT] [--size 834048] [--rounds 5]
 *
 * PYTHON is an interpreter with what the reference needs, CHECKOUT a checkout of https://github.com/AbdelStark/nostrain; without
 * them NOSTRAIN_PYTHON and NOSTRAIN_REFERENCE are used. Times are processor time of one process each, medians over the rounds;
 * every operation is done once here before the first. The values are sums of uniform draws.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { cpuMs, drawnForBench, median } from './codec/measure.ts';
import { type Operation, operationsOf } from './reference/operations.ts';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    size: { type: 'string', default: '834048' },
    rounds: { type: 'string', default: '5' },
  },
});
const { NOSTRAIN_PYTHON, NOSTRAIN_REFERENCE } = process.env;
const [python = NOSTRAIN_PYTHON, checkout = NOSTRAIN_REFERENCE] = positionals;
if (python === undefined || checkout === undefined) {
  throw new Error('give PYTHON and CHECKOUT, or set NOSTRAIN_PYTHON and NOSTRAIN_REFERENCE');
}

/** What the reference's GPT demo sends. */
const RATIO = 0.3;
const WEIGHTS = [4, 4, 5, 7];
const TARGET = 20;
const SCRIPT = fileURLToPath(new URL('reference/operations.py', import.meta.url));

interface Measured {
  readonly ms: number;
  readonly result: string;
}

const size = Number(flags.size);
const drawn = drawnForBench(size * WEIGHTS.length);
const rows = WEIGHTS.map((_, i) => drawn.subarray(i * size, (i + 1) * size));
const theirs = await startReference(drawn);
const ours = operationsOf(rows, WEIGHTS, RATIO);
for (const operation of Object.values(ours)) for (let i = 0; i < 3; i++) measure(operation);

console.log(`| ${size} parameters | the reference, ms | here, ms | times | same result |`);
console.log('| --- | --- | --- | --- | --- |');
for (const [name, operation] of Object.entries(ours)) {
  const turns: (readonly [Measured, Measured])[] = [];
  for (let round = 0; round < Number(flags.rounds); round++) {
    turns.push([await theirs.ask(name), measure(operation)]);
  }
  const slow = median(turns.map(([their]) => their.ms));
  const fast = median(turns.map(([, our]) => our.ms));
  const isSame = turns.every(([their, our]) => their.result === our.result);
  const times = slow / fast;
  const cells = [slow.toFixed(1), fast.toFixed(2), times.toFixed(times < 10 ? 1 : 0)];
  const shortfall = times < TARGET ? ` (below ${TARGET})` : '';
  console.log(`| ${name} | ${cells.join(' | ')}${shortfall} | ${isSame ? 'yes' : 'NO'} |`);
}
theirs.close();

function measure({ run }: Operation): Measured {
  const started = cpuMs();
  const describe = run();
  return { ms: cpuMs() - started, result: describe() };
}

interface Reference {
  ask(operation: string): Promise<Measured>;
  close(): void;
}

/** The reference in a process of its own, idle but while it is asked. */
async function startReference(values: Float64Array): Promise<Reference> {
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-bench-'));
  const file = join(folder, 'values.f64');
  writeFileSync(file, new Uint8Array(values.buffer));
  const child = spawn(python!, [SCRIPT, file, String(RATIO), WEIGHTS.join()], {
    env: { ...process.env, PYTHONPATH: join(checkout!, 'src') },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const { value, done } = await answers.next();
    if (done) throw new Error('the reference ended');
    return value;
  };
  await next();
  rmSync(folder, { recursive: true });
  return {
    async ask(operation) {
      child.stdin.write(`${operation}\n`);
      return JSON.parse(await next());
    },
    close: () => child.stdin.end(),
  };
}
