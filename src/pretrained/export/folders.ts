/**
 * What was learned, in Hugging Face's files: an adapter for PEFT, or a folder for `transformers` with the adapter
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

/** A published model and what was learned of it. */
export interface Learned {
  readonly pretrained: Pretrained;
  /** Undefined where all of the model's own tensors were trained. */
  readonly adapter: LoraSpec | undefined;
  /** The learned tensors by name: those of the adapter, trained or not, or all of the model. */
  own(name: string): Float32Array;
}

/** A file to be written, in pieces, so that no model is ever in memory as a whole. */
export interface OutFile {
  readonly name: string;
  pieces(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** One tensor of the model, what was learned included. */
export interface LearnedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  read(): Promise<Float32Array>;
}

/** In the order of the model's files. */
export function learnedTensors({ pretrained, adapter, own }: Learned): readonly LearnedTensor[] {
  const merges = adapter ? mergeLora(pretrained.spec, adapter) : undefined;
  return [...pretrained.tensors].map(([name, stored]) => ({
    name,
    shape: stored.shape,
    read: async () => {
      if (!merges) return own(name);
      const base = await readFinite(name, stored);
      return merges.get(name)?.(base, own) ?? base;
    },
  }));
}

/** A file of one piece. */
export const outFile = (name: string, bytes: Uint8Array): OutFile => ({
  name,
  pieces: () => [bytes],
});

/** A JSON file as people read it. */
export const jsonFile = (name: string, value: unknown): OutFile =>
  outFile(name, new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`));

/** The bytes that numbers lie in. */
export const rawBytes = (values: Float32Array | Uint16Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

const METADATA = { format: 'pt' };

/** The adapter as PEFT saves it; `base` is what it says the base is called. */
export function adapterFiles(
  { pretrained: { spec }, own }: Learned,
  adapter: LoraSpec,
  base: string,
): readonly OutFile[] {
  const tensors = loraTensors(spec, adapter).map(({ name, shape }) => {
    return { name, shape, values: own(name) };
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

/** The number formats of a folder's weights, by the names that config.json gives them. */
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

/** The full model. */
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

/** What the base says of itself, and what a GGUF file leaves to the tokenizer. */
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

/** A special token, which files give alone or in an object. */
export const tokenText = (token: unknown): string =>
  String((token as { content?: unknown } | null | undefined)?.content ?? token ?? '');
