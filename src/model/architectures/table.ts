/** The architectures by name. To add one: a file, a line here, and its spec in `src/run/spec/model-spec.ts`. */
import { ConfigError, NostrainError, wordsOf } from '../../base/errors.ts';
import {
  type DecoderSpec,
  type Experts,
  type GptSpec,
  MOST_TIERS,
  type ModelSpec,
  type Tiers,
} from '../../run/spec/model-spec.ts';
import { decodingOf } from '../decoding.ts';
import type { Architecture, CustomModel, DataForm, Model } from './architecture.ts';
import { type Decoder, decoderModel } from './decoder.ts';
import { checkExperts } from './experts.ts';
import { gpt } from './gpt.ts';
import { checkGpt2, gpt2 } from './gpt2.ts';
import { checkLlama, llama } from './llama.ts';
import { linear, mlp } from './mlp.ts';
import { forecaster, vit } from './patches.ts';
import { sliceModel, widthIn } from './slices.ts';

type Name = ModelSpec['architecture'];
type SpecOf = { readonly [A in Name]: Extract<ModelSpec, { readonly architecture: A }> };

/** Returns the architecture of a published decoder, with a check of its sizes. */
const published = <S extends DecoderSpec>(
  decoderOf: (spec: S) => Decoder,
  check: (spec: S) => void,
): Architecture<S> => ({
  build(spec) {
    const decoder = decoderOf(spec);
    return { ...decoderModel(decoder), decoding: decodingOf(decoder) };
  },
  dataForm: ({ vocabulary, context }) => ({ kind: 'tokens', vocabulary, context }),
  check,
});

const architectures: { readonly [A in Name]: Architecture<SpecOf[A]> } = {
  linear,
  mlp,
  gpt,
  llama: published(llama, checkLlama),
  gpt2: published(gpt2, checkGpt2),
  forecaster,
  vit,
};

/** A built-in model with its sizes, or a user-defined one. */
export type AnyModel = ModelSpec | CustomModel;

/** Returns the model that a spec describes. Throws a ConfigError if a size is invalid. */
export function modelOf(spec: AnyModel): Model {
  if (spec.architecture === 'own') return checkTensors(spec);
  checkSizes(spec);
  const tiers = tiersOf(spec);
  if (!tiers) return build(spec);
  const { ffn } = spec as TieredSpec;
  return sliceModel(build(ofTier(spec as TieredSpec)), tiers, ffn);
}

/** Specs of models that can have tiers. */
export type TieredSpec = GptSpec | DecoderSpec;

/** Returns the tiers of a model; undefined if it has none. */
export const tiersOf = (spec: AnyModel): Tiers | undefined =>
  'tiers' in spec ? spec.tiers : undefined;

/** Returns the experts of a model; undefined if it has none. */
export const expertsOf = (spec: AnyModel): Experts | undefined =>
  'experts' in spec ? spec.experts : undefined;

/** Returns the spec of a tier as a narrower model without slices. Throws a ConfigError if the tier does not exist. */
export function ofTier<S extends TieredSpec>({ tiers, ...spec }: S): S {
  if (tiers) checkTiers(spec.ffn, tiers);
  return { ...spec, ffn: tiers ? widthIn(spec.ffn, tiers) : spec.ffn } as S;
}

/** Returns the decoder that a spec describes, for adapters. Throws a ConfigError if a size is invalid. */
export function decoderOf(spec: DecoderSpec): Decoder {
  checkSizes(spec);
  return spec.architecture === 'llama' ? llama(spec) : gpt2(spec);
}

/** Returns the architecture of a spec. The cast is safe: the entry matches the spec's architecture. */
const architectureOf = (spec: ModelSpec): Architecture<ModelSpec> =>
  architectures[spec.architecture];

const build = (spec: ModelSpec): Model => architectureOf(spec).build(spec);

/** Returns the data form of a model. */
export const dataFormOf = (model: AnyModel): DataForm =>
  model.architecture === 'own' ? model.data : architectureOf(model).dataForm(model);

function checkTensors(model: CustomModel): Model {
  const names = new Set(model.tensors.map(({ name }) => name));
  if (names.size === 0 || names.size !== model.tensors.length) {
    throw new ConfigError('model/tensors', 'model.tensors needs tensors, each with its own name');
  }
  for (const { name, shape } of model.tensors) {
    if (shape.every((dim) => Number.isSafeInteger(dim) && dim > 0)) continue;
    throw new ConfigError('model/size', `${name} cannot have the shape ${shape.join(' x ')}`, {
      hint: 'use positive integers as dimensions',
    });
  }
  return {
    ...model,
    predict: (weights, inputs) => worded('predict', () => model.predict(weights, inputs)),
    losses: (weights, batch, isTraining) =>
      worded('losses', () => model.losses(weights, batch, isTraining)),
  };
}

/** Turns errors from a user's model code into a ConfigError: they are not bugs of this program. */
function worded<T>(part: 'predict' | 'losses', build: () => T): T {
  try {
    return build();
  } catch (error) {
    throw error instanceof NostrainError ? error : unbuildable(part, error);
  }
}

function unbuildable(part: string, cause: unknown): ConfigError {
  return new ConfigError('model/graph', `Your model's ${part} cannot be built: ${wordsOf(cause)}`, {
    cause,
  });
}

function checkSizes(spec: ModelSpec): void {
  for (const [name, value] of Object.entries(spec)) {
    if (name === 'architecture' || name === 'normEpsilon' || name === 'deviation') continue;
    if (!Array.isArray(value) && typeof value !== 'number') continue;
    for (const size of Array.isArray(value) ? value : [value]) {
      if (!Number.isSafeInteger(size) || size < 1) {
        throw new ConfigError(
          'model/size',
          `model.${name} must be whole and positive, not ${size}`,
        );
      }
    }
  }
  if ('tiers' in spec && spec.tiers) checkTiers(spec.ffn, spec.tiers);
  checkExperts(expertsOf(spec), tiersOf(spec) !== undefined);
  architectureOf(spec).check?.(spec);
}

/** Maximum tiers in a run with helpers: every slice has a hash in each manifest, and there are 2^tiers slices. */
const MOST_HELPED = 3;

function checkTiers(ffn: number, { count, tier, even, helps }: Tiers): void {
  const isTier = (tier: number) => Number.isSafeInteger(tier) && tier >= 0;
  if (!isTier(count) || count > MOST_TIERS || !isTier(tier) || tier > count) {
    throw new ConfigError('model/tiers', `there is no tier ${tier} of ${count}`, {
      hint: `a run has at most ${MOST_TIERS} tiers in addition to the full model, which is tier 0`,
    });
  }
  if (even && count > MOST_HELPED) {
    throw new ConfigError(
      'model/tiers',
      `a run with helpers has at most ${MOST_HELPED} tiers in addition to the full model`,
      {
        hint: 'use fewer --tiers, or --set helperRotation=0',
      },
    );
  }
  if (helps && tier === 0) {
    throw new ConfigError('model/tiers', 'a worker that trains the full model cannot be a helper', {
      hint: 'leave helper out, or train a smaller tier (a higher --tier)',
    });
  }
  const divisor = 2 ** count;
  if (ffn % divisor === 0) return;
  throw new ConfigError(
    'model/tiers',
    `feed-forward layers are ${ffn} wide, which is not divisible by ${divisor}: there is no tier ` +
      `${count}`,
    {
      hint: 'use fewer tiers, or a width that is a multiple of it',
      data: { width: ffn, divisor },
    },
  );
}
