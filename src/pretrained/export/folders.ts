/**
 * Exports a trained model as Hugging Face files: an adapter for PEFT, or a folder for `transformers` with the adapter
 * merged into the weights.
 */
import { type LoraSpec, loraTargets, loraTensors, mergeLora } from '../../model/adapters/lora.ts';
import { toBrains, toHalves } from '../../tensor/dtype.ts';
import {
  type DescribedTensor,
  encodeSafetensors,
  encodeSafetensorsHeader,
} from '../../tensor/safetensors.ts';
import type { Pretrained } from '../pretrained.ts';
import { readFinite } from '../weights.ts';

/** A published model and the tensors trained from it. */
export interface Learned {
  readonly pretrained: Pretrained;
  /** Undefined if all tensors of the model were trained. */
  readonly adapter: LoraSpec | undefined;
  /** Returns a tensor by name: one of the adapter, trained or not, or any tensor of the model. */
  valuesOf(name: string): Float32Array;
}

/** A file to write, in pieces, so that the model is never in memory as a whole. */
export interface OutFile {
  readonly name: string;
  pieces(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** One tensor of the trained model. */
export interface LearnedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  read(): Promise<Float32Array>;
}

/** Returns the tensors of the trained model, in the order of the published files. */
export function learnedTensors({
  pretrained,
  adapter,
  valuesOf,
}: Learned): readonly LearnedTensor[] {
  const merges = adapter ? mergeLora(pretrained.spec, adapter) : undefined;
  return [...pretrained.tensors].map(([name, stored]) => ({
    name,
    shape: stored.shape,
    read: async () => {
      if (!merges) return valuesOf(name);
      const base = await readFinite(name, stored);
      return merges.get(name)?.(base, valuesOf) ?? base;
    },
  }));
}

/** Returns a file of one piece. */
export const outFile = (name: string, bytes: Uint8Array): OutFile => ({
  name,
  pieces: () => [bytes],
});

/** Returns an indented JSON file. */
export const jsonFile = (name: string, value: unknown): OutFile =>
  outFile(name, new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`));

/** Returns the bytes of an array, without copying. */
export const rawBytes = (values: Float32Array | Uint16Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

const METADATA = { format: 'pt' };

/** Returns the adapter as PEFT saves it; `base` is the base model's name or path in it. */
export function adapterFiles(
  { pretrained: { spec }, valuesOf }: Learned,
  adapter: LoraSpec,
  base: string,
): readonly OutFile[] {
  const tensors = loraTensors(spec, adapter).map(({ name, shape }) => {
    return { name, shape, values: valuesOf(name) };
  });
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base,
    r: adapter.rank,
    lora_alpha: adapter.alpha,
    target_modules: loraTargets(spec, adapter),
    // GPT-2 stores the weights of its layers [in, out]
    fan_in_fan_out: spec.architecture === 'gpt2',
    lora_dropout: 0,
    bias: 'none',
    modules_to_save: null,
    inference_mode: true,
  };
  return [
    jsonFile('adapter_config.json', config),
    outFile('adapter_model.safetensors', encodeSafetensors({ tensors, metadata: METADATA })),
  ];
}

/** Number formats of the weights in a folder, with their names in config.json. */
export const folderTypes = {
  f32: { dtype: 'F32', named: 'float32', bytes: 4, encode: rawBytes },
  f16: {
    dtype: 'F16',
    named: 'float16',
    bytes: 2,
    encode: (values: Float32Array) => rawBytes(toHalves(values)),
  },
  bf16: {
    dtype: 'BF16',
    named: 'bfloat16',
    bytes: 2,
    encode: (values: Float32Array) => rawBytes(toBrains(values)),
  },
} as const;

/** Returns the full model as a folder for `transformers`. */
export function modelFiles(learned: Learned, type: keyof typeof folderTypes): readonly OutFile[] {
  const { pretrained } = learned;
  const { chatTemplate, tokenizerFiles } = pretrained;
  const { chat_template: _, ...tokenizerConfig } = tokenizerFiles.config;
  const format = folderTypes[type];
  return [
    jsonFile('config.json', configOf(pretrained, format.named)),
    weightsFile(learnedTensors(learned), format),
    jsonFile('tokenizer.json', tokenizerFiles.tokenizer),
    jsonFile('tokenizer_config.json', {
      tokenizer_class: 'PreTrainedTokenizerFast',
      ...tokenizerConfig,
      ...(chatTemplate !== undefined && { chat_template: chatTemplate }),
    }),
  ];
}

function weightsFile(
  tensors: readonly LearnedTensor[],
  { dtype, bytes, encode }: (typeof folderTypes)[keyof typeof folderTypes],
): OutFile {
  const described = tensors.map(({ name, shape }): DescribedTensor => {
    return { name, shape, dtype, bytes: bytes * shape.reduce((a, b) => a * b, 1) };
  });
  return {
    name: 'model.safetensors',
    async *pieces() {
      yield encodeSafetensorsHeader(described, METADATA);
      for (const tensor of tensors) yield encode(await tensor.read());
    },
  };
}

const classes: Readonly<Record<string, string>> = {
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  gpt2: 'GPT2LMHeadModel',
};

/** Returns `config.json`: that of the base, plus the token ids that a GGUF base has only in its tokenizer. */
function configOf(
  { config, tokenizer, tokenizerFiles }: Pretrained,
  named: string,
): Record<string, unknown> {
  const specials = ['bos', 'eos', 'pad'].flatMap((kind) => {
    const id = tokenizer.idOf(tokenText(tokenizerFiles.config[`${kind}_token`]));
    return id === undefined ? [] : [[`${kind}_token_id`, id] as const];
  });
  return {
    architectures: [classes[String(config.model_type)]],
    ...Object.fromEntries(specials),
    ...config,
    dtype: named,
    torch_dtype: named,
  };
}

/** Returns the text of a special token, which files store as a text or an object. */
export const tokenText = (token: unknown): string =>
  String((token as { content?: unknown } | null | undefined)?.content ?? token ?? '');
