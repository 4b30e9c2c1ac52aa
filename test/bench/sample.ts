/**
 * How fast text is written: tokens a second of SmolLM2-135M-Instruct, greedy, beside transformers with its key-value cache or
 * llama.cpp, in turns and in one run. The time of a text includes reading its prompt. transformers must write the same text.
 *
 *   npm run bench:sample -- [--texts 3] [--length 64] [--threads 1 --threads 2] [--peer transformers|llama] [--precision f32|q8]
 *
 * The peer runs in the interpreter NOSTRAIN_TORCH, with torch, transformers and gguf, or llama-cpp-python; without it ours is
 * measured alone. transformers computes in f32 only.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openPublishedWriter } from '../../src/node/files/trained-run.ts';
import { openBase } from '../../src/node/pretrained/base-model.ts';
import { needSmolLM2 } from '../support/smollm2.ts';

const TEXT = 'Once upon a time, in a village by the sea, there lived an old clockmaker who ';

interface Written {
  readonly seconds: number;
  /** Processor time, in seconds. */
  readonly cpu: number;
  readonly tokens: readonly number[];
}

type Write = (threads: number) => Promise<Written>;

const { values } = parseArgs({
  options: {
    texts: { type: 'string', default: '3' },
    length: { type: 'string', default: '64' },
    threads: { type: 'string', multiple: true, default: ['1', '2'] },
    peer: { type: 'string', default: 'transformers' },
    precision: { type: 'string', default: 'f32' },
  },
});
const length = Number(values.length);
const precision = values.precision === 'q8' ? 'q8' : 'f32';
const isExact = values.peer === 'transformers';
const file = needSmolLM2();
const base = await openBase(
  {
    ...{ base: file, rank: 0, alpha: 1, targets: 'qv', seed: 1 },
    basePrecision: precision,
  },
  { onNotice: () => undefined, signal: new AbortController().signal },
);
const prompt = base.tokenizer.ids(TEXT);
const started = performance.now();
const params = await base.first(1);
console.log(`ours: the weights are read in ${((performance.now() - started) / 1000).toFixed(1)} s`);

/** One writer for each number of threads, with the same weights. */
const writers = new Map(
  await Promise.all(
    values.threads.map(async (threads) => {
      return [threads, await openPublishedWriter(base, params, Number(threads))] as const;
    }),
  ),
);

const ours: Write = async (threads) => {
  const tokens: number[] = [];
  const [begun, used] = [performance.now(), process.cpuUsage()];
  const request = { prompt, length, temperature: 0, seed: 1 };
  await writers.get(String(threads))!.write(request, (token) => tokens.push(token));
  const { user, system } = process.cpuUsage(used);
  const seconds = (performance.now() - begun) / 1000;
  return { seconds, cpu: (user + system) / 1e6, tokens };
};

/** The peer, loaded once. */
async function openPeer(python: string): Promise<{ write: Write; close(): void }> {
  const name = isExact ? 'sample.py' : 'llama.py';
  const script = fileURLToPath(new URL(`torch/${name}`, import.meta.url));
  const args = isExact ? [file] : [file, precision];
  const child = spawn(python, [script, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => {
    const line = await lines.next();
    if (line.done) throw new Error('the peer ended');
    return JSON.parse(line.value);
  };
  const { seconds, versions } = await answer();
  console.log(`${versions}: the model is read in ${seconds.toFixed(1)} s`);
  return {
    write: (threads) => {
      child.stdin.write(`${JSON.stringify({ prompt, length, threads })}\n`);
      return answer();
    },
    close: () => child.stdin.end(),
  };
}

const median = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;

const python = process.env.NOSTRAIN_TORCH;
if (python === undefined) console.log(`no ${values.peer}: set NOSTRAIN_TORCH to its python`);
const peer = python === undefined ? undefined : await openPeer(python);
console.log(`prompt of ${prompt.length} tokens, ${length} new ones, median of ${values.texts}`);
for (const threads of values.threads.map(Number)) {
  const speeds = { ours: [] as number[], peer: [] as number[] };
  const costs = { ours: [] as number[], peer: [] as number[] };
  // the first text of each is warm-up: programs are compiled
  for (let text = 0; text <= Number(values.texts); text++) {
    const own = await ours(threads);
    const other = await peer?.write(threads);
    const isSame = other?.tokens.join() === own.tokens.join();
    if (other && !isSame && isExact) throw new Error('the texts differ');
    if (text === 0) continue;
    speeds.ours.push(own.tokens.length / own.seconds);
    costs.ours.push((1000 * own.cpu) / own.tokens.length);
    if (!other) continue;
    speeds.peer.push(other.tokens.length / other.seconds);
    costs.peer.push((1000 * other.cpu) / other.tokens.length);
  }
  const [own, other] = [median(speeds.ours), speeds.peer.length > 0 ? median(speeds.peer) : 0];
  const beside =
    other > 0 ? `, ${values.peer} ${other.toFixed(1)}: ${(own / other).toFixed(2)}x` : '';
  console.log(`${threads} thread(s): ${own.toFixed(1)} tokens/s${beside}`);
  const [cost, otherCost] = [median(costs.ours), other > 0 ? median(costs.peer) : 0];
  const ratio =
    other > 0 ? `, ${values.peer} ${otherCost.toFixed(1)}: ${(otherCost / cost).toFixed(2)}x` : '';
  console.log(`  processor time of a token: ${cost.toFixed(1)} ms${ratio}`);
}
peer?.close();
for (const writer of writers.values()) await writer.close();
