/** A base where there is none: a small Llama that the demo trains from nothing on the built-in play, as files like those of any published model. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deriveKey } from '../../src/base/rng.ts';
import { readModelConfig } from '../../src/model/architectures/config.ts';
import { writePlay } from '../../src/model/data/playwright.ts';
import { initialParameters } from '../../src/model/parameters.ts';
import { createTrainer } from '../../src/node/engine/trainer.ts';
import type { OptimizerSpec } from '../../src/run/spec/model-spec.ts';
import { encodeSafetensors } from '../../src/tensor/safetensors.ts';

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

export interface SmallBase {
  readonly steps: number;
  readonly threads: number;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

/** Trains it and writes it into a new folder, which it gives back. */
export async function trainSmallBase(folder: string, options: SmallBase): Promise<string> {
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
    const trained = await trainer.train(task, () => undefined, signal);
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

/** One token for each byte, in the form of published tokenizers, whose letters stand for bytes. */
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
