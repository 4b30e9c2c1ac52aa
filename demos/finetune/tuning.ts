/** Parts of `nostrain demo finetune`: the base model, samples and losses before and after, and one worker alone. */
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import {
  countParameters,
  deriveKey,
  encodeSafetensors,
  initialParameters,
  NostrainError,
  readModelConfig,
} from 'nostrain';
import { createTrainer } from 'nostrain/node';
import { sha256Hex } from '../../src/base/hash.ts';
import { createSlowReporter, measuringReporter, whileSlow } from '../../src/base/slow.ts';
import { writePlay } from '../../src/model/data/playwright.ts';
import { prepareTask, type Task } from '../../src/node/data/task.ts';
import { readStateFile } from '../../src/node/files/state-file.ts';
import { numbersFor } from '../../src/node/files/trained-run.ts';
import type { BaseModel } from '../../src/node/pretrained/base-model.ts';
import { downloadReporter, fetchModel } from '../../src/node/pretrained/hub.ts';
import { smolLM2File } from '../../src/node/pretrained/model-files.ts';
import { completeSettings, type PartialSettings, type Settings } from '../../src/run/settings.ts';
import type { OptimizerSpec } from '../../src/run/spec/model-spec.ts';
import { presets } from '../../src/run/spec/presets.ts';
import { hashBase } from '../../src/run/spec/start.ts';
import type { EngineTrainer } from '../../src/trainer/trainer.ts';
import { type DemoData, demoText } from '../shared/data.ts';
import type { Stage } from '../shared/stage.ts';
import { writeLogbook } from './logbook.ts';

const HUB_BASE = 'hf:HuggingFaceTB/SmolLM2-135M-Instruct';
/** Inner steps that train the small built-in base. */
const STEPS = { usual: 200, quick: 60 };
const SAMPLE_CHARACTERS = 240;
/** Memory of a worker besides the base in f32, for activations and program; measured in docs/results/fine-tuning.md. */
const BESIDE_BASE_BYTES = 1e9;

/** The fields of `--json` that only this demo has. */
export interface TunedPart {
  /** The base model. If it has several files, the hash covers their hashes and the tokenizer's. */
  readonly base: { readonly name: string; readonly sha256: string; readonly parameters: number };
  readonly adapter: {
    readonly rank: number;
    readonly targets: string;
    readonly parameters: number;
  };
  /** Loss per token on the validation slice before training. */
  readonly baseValidationLoss: number;
  /** Bits per byte of the shared model on the same slice at the end. */
  readonly bitsPerByte: number;
  /** Loss of the first worker trained alone: the same steps on its part of the text. */
  readonly aloneValidationLoss: number;
}

export interface Tuning {
  readonly data: DemoData;
  /** Settings for every worker, besides those of the demo. */
  readonly settings: PartialSettings;
  /** Evaluates and samples the base, before the workers use the processor. */
  before(settings: PartialSettings): Promise<void>;
  /** Evaluates and samples the model in this worker's folder, and trains one worker alone. */
  after(folder: string): Promise<TunedPart>;
}

export async function prepareTuning(stage: Stage, workers: number): Promise<Tuning> {
  const { dir, onNotice, signal } = stage;
  const { corpus, seed } = stage.flags;
  const { base, isSmall } = await chooseBase(stage);
  const data = isSmall && corpus === undefined ? await keepLogbook(dir) : await demoText(stage);
  const settings: PartialSettings = { base, ...(isSmall ? smallSettings : {}) };
  let tuneSettings: Settings | undefined;
  let baseValidationLoss = Number.NaN;
  const task = async (): Promise<Tuned> => {
    const prepared = await prepareTask(tuneSettings!, { corpus: data.file, onNotice, signal });
    return prepared as Tuned;
  };
  return {
    data,
    settings,
    async before(given) {
      const shard = { index: 1, count: workers };
      const fixed = { run: 'demo', relay: [], ...settings, seed, shard };
      tuneSettings = completeSettings(presets.pretrained, given, fixed);
      const tuned = await task();
      warnMemory(tuned.base, workers, onNotice);
      await withTrainer(tuned, tuneSettings, onNotice, async (trainer) => {
        const params = await tuned.base.first(seed);
        baseValidationLoss = await measure(trainer, params, 'the base', onNotice);
        onNotice(`before: ${lossWords(baseValidationLoss, tuned)}; the base writes:`);
        for (const line of await write(trainer, params, tuned, seed)) onNotice(line);
      });
    },
    async after(folder) {
      const tuned = await task();
      const { rank, targets } = tuneSettings!;
      const { layout, values } = await readStateFile(folder);
      return await withTrainer(tuned, tuneSettings!, onNotice, async (trainer) => {
        const shared = numbersFor({ layout, values: Float32Array.from(values) }, trainer.layout)!;
        const loss = await measure(trainer, shared, 'the shared model', onNotice);
        onNotice(`together: ${lossWords(loss, tuned)}; the shared model writes:`);
        for (const line of await write(trainer, shared, tuned, seed)) onNotice(line);
        const alone = await trainAlone(trainer, tuned, tuneSettings!, { onNotice, signal });
        onNotice(`one worker alone, as many steps on its part: ${lossWords(alone, tuned)}`);
        return {
          base: baseOf(tuned.base),
          adapter: { rank, targets, parameters: trainer.layout.size },
          baseValidationLoss,
          bitsPerByte: bitsPerByte(loss, tuned),
          aloneValidationLoss: alone,
        };
      });
    },
  };
}

type Tuned = Task & Required<Pick<Task, 'base' | 'text'>>;

/** Settings for a small model, which is tuned in all layers. */
const smallSettings: PartialSettings = {
  context: 128,
  batchSize: 8,
  targets: 'all-linear',
  localLearningRate: 1e-2,
};

/** Returns the base of --base, else SmolLM2 from this machine or the hub, else a small model that the demo trains. */
async function chooseBase({ flags, dir, onNotice, signal }: Stage) {
  const { base, quick } = flags;
  if (base !== undefined) return { base, isSmall: false };
  const cached = smolLM2File();
  if (existsSync(cached)) return { base: cached, isSmall: false };
  try {
    const onProgress = downloadReporter(HUB_BASE, onNotice);
    const fetched = await fetchModel(HUB_BASE, { onProgress, signal });
    return { base: fetched, isSmall: false };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof NostrainError)) throw error;
    onNotice(`${HUB_BASE} is not available (${error.message})`);
  }
  onNotice('so this demo first trains a small Llama on the built-in play for a minute,');
  onNotice(
    "and then fine-tunes it on another built-in text, a ship's log (--base names another base)",
  );
  const threads = availableParallelism();
  const small = { steps: quick ? STEPS.quick : STEPS.usual, threads, onNotice, signal };
  return { base: await trainSmallBase(join(dir, 'small-llama'), small), isSmall: true };
}

async function keepLogbook(dir: string): Promise<DemoData> {
  const bytes = writeLogbook();
  const file = join(dir, 'corpus.txt');
  await writeFile(file, bytes);
  return { name: 'built-in logbook', sha256: sha256Hex(bytes), bytes: bytes.length, file };
}

function baseOf(base: BaseModel): TunedPart['base'] {
  const { files, name, spec } = base;
  const [only] = files;
  return {
    name: basename(name),
    sha256: files.length === 1 ? only!.sha256 : hashBase(base),
    parameters: countParameters(spec),
  };
}

/** Warns if the workers together may not fit into memory. */
function warnMemory({ spec }: BaseModel, workers: number, onNotice: (text: string) => void): void {
  const needed = workers * (4 * countParameters(spec) + BESIDE_BASE_BYTES);
  if (needed <= totalmem()) return;
  const words = [needed, totalmem()].map((bytes) => `${(bytes / 1e9).toFixed(0)} GB`);
  onNotice(
    `${workers} workers need about ${words[0]} of memory and this machine has ${words[1]}: ` +
      'use fewer (--workers 2)',
  );
}

async function withTrainer<T>(
  task: Tuned,
  { batchSize: batch, recompute, accumulate }: Settings,
  onNotice: Stage['onNotice'],
  play: (trainer: EngineTrainer) => Promise<T>,
): Promise<T> {
  const setup = { ...task, batch, recompute, accumulate, device: 'cpu' } as const;
  const trainer = await whileSlow('opening the trainer', onNotice, () => createTrainer(setup));
  try {
    return await play(trainer);
  } finally {
    await trainer.close();
  }
}

async function trainAlone(
  trainer: EngineTrainer,
  { base }: Tuned,
  { rounds, innerSteps, seed }: Settings,
  { onNotice, signal }: Pick<Stage, 'onNotice' | 'signal'>,
): Promise<number> {
  const params = await base.first(seed);
  const steps = rounds * innerSteps;
  const batchKey = deriveKey('nostrain/batches', seed, 'alone');
  const task = { params, moments: [], round: 0, steps, firstStep: 0, batchKey };
  const trained = await trainer.train(task, stepReporter('one worker alone', onNotice), signal);
  return await measure(trainer, trained.params, 'the worker alone', onNotice);
}

/** Returns the validation loss, and reports how many batches are measured. */
const measure = (
  trainer: EngineTrainer,
  params: Float32Array,
  what: string,
  onNotice: Stage['onNotice'],
): Promise<number> =>
  trainer.evaluate(params, 'validation', { onProgress: measuringReporter(what, onNotice) });

function stepReporter(what: string, onNotice: Stage['onNotice']) {
  const slowly = createSlowReporter(onNotice);
  return ({
    step,
    steps,
    loss,
  }: {
    readonly step: number;
    readonly steps: number;
    readonly loss: number;
  }) => slowly(`${what}: step ${step} of ${steps}, loss ${loss.toFixed(3)}`);
}

async function write(
  trainer: EngineTrainer,
  params: Float32Array,
  task: Tuned,
  seed: number,
): Promise<readonly string[]> {
  const { tokenizer } = task.text;
  const prompt = tokenizer.encode('\n').tokens;
  const length = Math.ceil(SAMPLE_CHARACTERS / task.text.bytesPerToken);
  const tokens = await trainer.sample(params, { prompt, length, temperature: 0.8, seed });
  return tokenizer
    .decode(tokens)
    .trim()
    .split('\n')
    .map((line) => `  ${line}`);
}

const lossWords = (loss: number, task: Tuned): string =>
  `${loss.toFixed(3)} nats per token, ${bitsPerByte(loss, task).toFixed(3)} bits per byte`;

const bitsPerByte = (loss: number, { text }: Tuned): number => loss / Math.LN2 / text.bytesPerToken;

const CONTEXT = 128;
const BATCH = 16;

const config = {
  model_type: 'llama',
  hidden_size: 128,
  intermediate_size: 384,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  vocab_size: 256,
  rope_theta: 10_000,
  max_position_embeddings: CONTEXT,
  tie_word_embeddings: true,
  rms_norm_eps: 1e-5,
};

interface SmallBase extends Pick<Stage, 'onNotice' | 'signal'> {
  readonly steps: number;
  readonly threads: number;
}

/** Trains a small Llama on the built-in play and writes it to a folder in the form of a published model. */
async function trainSmallBase(folder: string, options: SmallBase): Promise<string> {
  const { steps, threads, onNotice, signal } = options;
  const model = readModelConfig(config, { context: CONTEXT });
  const play = writePlay();
  const optimizer: OptimizerSpec = {
    optimizer: 'muon',
    schedule: { learningRate: 3e-3, warmupSteps: 20, totalSteps: steps, finalShare: 0.1 },
    clipNorm: 1,
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weightDecay: 0.1,
    momentum: 0.9,
    stepSize: 1.5,
  };
  const cut = Math.floor(0.95 * play.length);
  const trainer = await createTrainer({
    model,
    optimizer,
    batch: BATCH,
    device: 'cpu',
    threads,
    data: { kind: 'tokens', shard: play.subarray(0, cut), validation: play.subarray(cut) },
  });
  try {
    const params = initialParameters(model, 1);
    const task = {
      params,
      moments: [],
      round: 0,
      steps,
      firstStep: 0,
      batchKey: deriveKey(folder),
    };
    const trained = await trainer.train(task, stepReporter('the small Llama', onNotice), signal);
    const loss = await trainer.evaluate(trained.params, 'validation', { batches: 4 });
    onNotice(`the small Llama is trained: ${loss.toFixed(2)} nats per byte of the play`);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'config.json'), JSON.stringify(config));
    await writeFile(join(folder, 'tokenizer.json'), JSON.stringify(byteTokenizer()));
    const tensors = trainer.layout.slots.map(({ name, shape, offset, size }) => ({
      name,
      shape,
      values: trained.params.subarray(offset, offset + size),
    }));
    const weights = encodeSafetensors({ tensors, metadata: { format: 'pt' } });
    await writeFile(join(folder, 'model.safetensors'), weights);
  } finally {
    await trainer.close();
  }
  return folder;
}

/** Returns a tokenizer.json with one token per byte. */
function byteTokenizer(): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true };
  const isPlain = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  const vocab = Object.fromEntries(
    Array.from({ length: 256 }, (_, byte) => [
      String.fromCodePoint(isPlain(byte) ? byte : next++),
      byte,
    ]),
  );
  const names = { dropout: null, unk_token: null, continuing_subword_prefix: null };
  const rules = { fuse_unk: false, byte_fallback: false, ignore_merges: false };
  return {
    version: '1.0',
    added_tokens: [],
    normalizer: null,
    post_processor: null,
    pre_tokenizer: { ...byteLevel, use_regex: true },
    decoder: { ...byteLevel, use_regex: true },
    model: { type: 'BPE', ...names, end_of_word_suffix: null, ...rules, vocab, merges: [] },
  };
}
