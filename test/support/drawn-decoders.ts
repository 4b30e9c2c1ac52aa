/** The numbers that the fixtures of decoders and adapters draw by a formula instead of storing them (test/vectors/make_decoders.py). */
import { type LoraSpec, loraModel, modelLayout, readModelConfig } from 'nostrain/model';
import type { DecoderSpec } from 'nostrain/run';

const isNorm = /(norm|ln_1|ln_2|ln_f)\.weight$/;

export interface DrawnDecoder {
  readonly spec: DecoderSpec;
  readonly adapter: LoraSpec | undefined;
  /** By name: the decoder's, then the adapters'. */
  readonly tensors: ReadonlyMap<string, Float32Array>;
  /** The next number of the formula, from 0 to 65535. */
  next(): number;
}

export function drawDecoder(
  {
    config,
    seed,
    adapter: own,
  }: {
    readonly config: Readonly<Record<string, unknown>>;
    readonly seed: number;
    readonly adapter?: LoraSpec | undefined;
  },
  context: number,
): DrawnDecoder {
  const spec = readModelConfig(config, { context });
  let state = seed;
  const next = () => {
    state = (Math.imul(1664525, state) + 1013904223) >>> 0;
    return state >>> 16;
  };
  const tensors = new Map<string, Float32Array>();
  for (const model of [spec, ...(own ? [loraModel(spec, own)] : [])]) {
    for (const { name, size } of modelLayout(model).slots) {
      const base = isNorm.test(name) ? 1 : 0;
      tensors.set(
        name,
        Float32Array.from({ length: size }, () => base + (next() - 32768) / 2 ** 17),
      );
    }
  }
  return { spec, adapter: own, tensors, next };
}
