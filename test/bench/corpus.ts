/**
 * A corpus larger than what is held in memory: how fast documents become tokens and what memory that takes, and a step that reads its
 * windows from the file beside one that has them in memory.
 *
 *   npm run bench:corpus -- [--megabytes 150] [--steps 100] [--threads <physical cores>] [--json]
 */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { deriveKey } from 'nostrain/base';
import { initialParameters, tokenizers } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { openCorpus, physicalCores } from 'nostrain/node/parts';
import type { AdamWSpec, GptSpec } from 'nostrain/run';
import { builtInForm, prepareTokens } from '../../src/node/data/token-parts.ts';
import { usualLimits } from '../../src/node/data/tokenize.ts';

const { values: options } = parseArgs({
  options: {
    megabytes: { type: 'string', default: '150' },
    steps: { type: 'string', default: '100' },
    threads: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});

const model: GptSpec = {
  ...{ architecture: 'gpt', vocabulary: 256, width: 128, layers: 4, heads: 4 },
  ...{ context: 128, ffn: 512 },
};
const optimizer: AdamWSpec = {
  optimizer: 'adamw',
  schedule: { learningRate: 1e-3, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  ...{ clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 },
};

const folder = await mkdtemp(join(tmpdir(), 'nostrain-corpus-'));
try {
  await main(join(folder, 'documents.jsonl'));
} finally {
  await rm(folder, { recursive: true, force: true });
}

async function main(file: string): Promise<void> {
  await writeDocuments(file, Number(options.megabytes) * 1e6);
  const memory = watchMemory();
  const start = performance.now();
  const tokens = await tokensOf(file, 0);
  const seconds = (performance.now() - start) / 1000;
  const grown = memory.stop();
  const { shard } = tokens.data;
  const [stored, held] = [await stepTime(file, 0), await stepTime(file, usualLimits.inMemory * 4)];
  const result = {
    megabytes: Number(options.megabytes),
    tokensOfShard: 'length' in shard ? shard.length : shard.tokens.length,
    seconds,
    megabytesPerSecond: Number(options.megabytes) / seconds,
    memoryGrownMegabytes: grown,
    stepFromFileMs: stored,
    stepFromMemoryMs: held,
  };
  if (options.json) console.log(JSON.stringify(result));
  else console.table(result);
}

async function writeDocuments(file: string, bytes: number): Promise<void> {
  const prompt = 'What does the river ask? '.repeat(10);
  const completion = 'It does not ask where the sea is. '.repeat(20);
  const line = `${JSON.stringify({ prompt, completion })}\n`;
  const out = createWriteStream(file);
  for (let written = 0; written < bytes; written += line.length) {
    if (!out.write(line)) await once(out, 'drain');
  }
  out.end();
  await once(out, 'finish');
}

async function tokensOf(file: string, held: number) {
  const onNotice = () => {};
  const corpus = await openCorpus({ file, cacheDir: folder, allowDownload: false, onNotice });
  return await prepareTokens(corpus, builtInForm(tokenizers.bytes), {
    ...{ context: model.context, shard: { index: 1, count: 4 }, form: 'interleaved' },
    ...{ folder, onNotice, limits: { ...usualLimits, inMemory: held } },
  });
}

function watchMemory(): { stop(): number } {
  const before = process.memoryUsage().rss;
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 20);
  return {
    stop: () => {
      clearInterval(timer);
      return (most - before) / 1e6;
    },
  };
}

/** Milliseconds of a step of the demo's model, batch 32. */
async function stepTime(file: string, held: number): Promise<number> {
  const { data } = await tokensOf(file, held);
  const threads = Number(options.threads ?? physicalCores());
  const trainer = await createTrainer({
    ...{ model, optimizer, data, batch: 32, device: 'cpu', threads },
  });
  const params = initialParameters(model, 1);
  const train = (steps: number) =>
    trainer.train(
      { params, moments: [], round: 0, steps, firstStep: 0, batchKey: deriveKey('bench', 'a') },
      () => {},
      new AbortController().signal,
    );
  await train(3);
  const { seconds } = await train(Number(options.steps));
  await trainer.close();
  return (1000 * seconds) / Number(options.steps);
}
