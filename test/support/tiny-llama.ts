/** Writes a minimal published model with the writers of this repository: a Llama with one layer and byte tokens. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { initialParameters, modelLayout, readModelConfig } from 'nostrain/model';
import { encodeSafetensors } from 'nostrain/tensor';

export const tinyConfig = {
  ...{ model_type: 'llama', hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2 },
  ...{ num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 260, rope_theta: 10000 },
  ...{ max_position_embeddings: 64, tie_word_embeddings: true, rms_norm_eps: 1e-5 },
};

/** The letters that byte-level tokenizers write bytes with. */
function byteLetters(): readonly string[] {
  const isPlain = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(isPlain(byte) ? byte : next++),
  );
}

/** One token for each byte, and pairs that are merged. */
export const tinyTokenizer = (merges: readonly string[] = []) => ({
  version: '1.0',
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: {
    type: 'ByteLevel',
    add_prefix_space: false,
    trim_offsets: true,
    use_regex: true,
  },
  post_processor: null,
  decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
  model: {
    type: 'BPE',
    ...{ dropout: null, unk_token: null, continuing_subword_prefix: null },
    ...{ end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false },
    vocab: Object.fromEntries(
      [...byteLetters(), ...merges.map((pair) => pair.replace(' ', ''))].map((token, id) => [
        token,
        id,
      ]),
    ),
    merges,
  },
});

export interface TinyOptions {
  readonly seed?: number;
  readonly tokenizer?: object;
  /** Changes the weights, by layout, before they are written. */
  change?(values: Float32Array): void;
  /** Changes the file. */
  file?(bytes: Uint8Array): Uint8Array;
}

/** Writes the model into this folder. */
export async function writeTinyLlama(folder: string, options: TinyOptions = {}): Promise<string> {
  const { seed = 7, tokenizer = tinyTokenizer(), change, file = (bytes) => bytes } = options;
  const spec = readModelConfig(tinyConfig, { context: 64 });
  const { slots } = modelLayout(spec);
  const values = initialParameters(spec, seed);
  change?.(values);
  const weights = encodeSafetensors({
    tensors: slots.map(({ name, shape, offset, size }) => ({
      ...{ name, shape },
      values: values.subarray(offset, offset + size),
    })),
    metadata: { format: 'pt' },
  });
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'config.json'), JSON.stringify(tinyConfig));
  await writeFile(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  await writeFile(join(folder, 'model.safetensors'), file(weights));
  return folder;
}
