/**
 * Transformers over patches: one that forecasts time series, and a vision transformer (ViT) that classifies pictures.
 */
import { ConfigError } from '../../base/errors.ts';
import type { ForecasterSpec, VitSpec } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  cast,
  constantLike,
  crossEntropy,
  div,
  gemm,
  greater,
  maximum,
  mul,
  oneHot,
  reduceMax,
  reduceMean,
  reduceSum,
  reshape,
  sqrt,
  square,
  sub,
  transpose,
} from '../graph/verbs.ts';
import type { Architecture, Model, Weights } from './architecture.ts';
import {
  blocks,
  checkWidth,
  norm,
  normed,
  patchLayer,
  throughBlocks,
  WEIGHT,
} from './transformer.ts';

const EPSILON = 1e-5;

/** Quantiles that are forecast if the loss is the quantile loss. */
export const QUANTILES = [0.1, 0.5, 0.9] as const;

/** Returns the number of forecasts per step and channel. */
export const forecastsPerNumber = ({ error }: Pick<ForecasterSpec, 'error'>): number =>
  error === 'quantile' ? QUANTILES.length : 1;

/**
 * A patch transformer that forecasts a series (after PatchTST, arXiv 2211.14730, with all channels of a patch in one
 * vector).
 *
 * Sizes: B windows, T = context steps and H = horizon steps to forecast, C channels, P steps a patch, N = T / P
 * patches, D = width, Q = 1 forecast of each number, or 3 of them: its quantiles 0.1, 0.5 and 0.9.
 *
 *   x (B, T, C); with scaling by the window, x = (x - mean) / sqrt(variance + 1e-5) over the T steps of each channel
 *   h = patches of x (B * N, P * C) @ patches.weight + patches.bias + positions.weight
 *   h = blocks of gpt.ts over the N patches, none of them masked; h = norm(h)
 *   y = h as (B, N * D) @ head.weight + head.bias, as (B, H, C, Q)
 *   with scaling by the window, y = y * sqrt(variance + 1e-5) + mean
 *   loss = mean of (y - target)^2, or of max(q e, (q - 1) e) with e = target - y, over steps, channels and quantiles q
 */
export const forecaster: Architecture<ForecasterSpec> = {
  build: buildForecaster,
  dataForm: ({ channels, context, horizon }) => ({ kind: 'series', channels, context, horizon }),
  check(spec) {
    checkPatches('context', spec.context, spec.patch);
    checkWidth(spec);
  },
};

function checkPatches(name: string, size: number, patch: number): void {
  if (size % patch === 0) return;
  throw new ConfigError(
    'model/patch',
    `model.${name} ${size} does not divide into patches of ${patch}`,
    { hint: `use a multiple of ${patch} for ${name}, or another --set patch=N` },
  );
}

/** Returns what the blocks make of patches, one row each: embedded, with positions, and normed (B * N, D). */
function seen(
  spec: ForecasterSpec | VitSpec,
  length: number,
  weights: Weights,
  patches: Value,
): Value {
  const [rows] = patches.shape as readonly [number, number];
  const { width } = spec;
  const embedded = gemm(patches, weights('patches.weight'), { c: weights('patches.bias') });
  const apart = reshape(embedded, [rows / length, length, width]);
  const positioned = reshape(add(apart, weights('positions.weight')), [rows, width]);
  return normed(weights, throughBlocks({ ...spec, length, causal: false }, weights, positioned));
}

function buildForecaster(spec: ForecasterSpec): Model {
  const { channels, context, horizon, patch, width, error } = spec;
  const length = context / patch;
  const each = forecastsPerNumber(spec);
  const outputs = horizon * channels * each;
  const predict: Model['predict'] = (weights, inputs) => {
    const windows = inputs.shape[0]!;
    const window = spec.scaling === 'window' ? scaleOf(inputs) : undefined;
    const x = window ? div(sub(inputs, window.mean), window.deviation) : inputs;
    const patches = reshape(x, [windows * length, patch * channels]);
    const read = reshape(seen(spec, length, weights, patches), [windows, length * width]);
    const flat = gemm(read, weights('head.weight'), { c: weights('head.bias') });
    const y = reshape(flat, [windows, horizon, channels, each]);
    if (!window) return y;
    const like = [windows, 1, channels, 1];
    return add(mul(y, reshape(window.deviation, like)), reshape(window.mean, like));
  };
  return {
    tensors: [
      ...patchLayer(patch * channels, length, width),
      ...blocks(spec),
      ...norm('norm', width),
      { name: 'head.weight', shape: [length * width, outputs], start: WEIGHT },
      { name: 'head.bias', shape: [outputs], start: 'zeros' },
    ],
    predict,
    losses: (weights, { inputs, targets }) => {
      const y = predict(weights, inputs);
      const wanted = reshape(targets, [...targets.shape, 1]); // (B, H, C, 1)
      return error === 'quantile' ? pinball(wanted, y) : square(sub(y, wanted));
    },
  };
}

/** Returns the mean and standard deviation of each channel over the steps of a window, both (B, 1, C). */
function scaleOf(inputs: Value): { readonly mean: Value; readonly deviation: Value } {
  const mean = reduceMean(inputs, [1], true);
  const variance = reduceMean(square(sub(inputs, mean)), [1], true);
  return { mean, deviation: sqrt(add(variance, EPSILON)) };
}

function pinball(wanted: Value, y: Value): Value {
  const rest = sub(wanted, y); // (B, H, C, Q)
  const shape = [1, 1, 1, QUANTILES.length];
  const above = constantLike(y, shape, QUANTILES);
  const below = constantLike(
    y,
    shape,
    QUANTILES.map((quantile) => quantile - 1),
  );
  return maximum(mul(rest, above), mul(rest, below));
}

/** Subtracted from the target's logit to exclude it; larger than any logit. */
const FAR = 1e30;

/**
 * A small vision transformer (arXiv 2010.11929, with the mean of all patches in place of a class token, arXiv
 * 2205.01580).
 *
 * Sizes: B pictures of S x S pixels with C channels from -1 to 1, patches of P x P pixels, N = (S / P)^2 of them, row
 * by row, D = width.
 *
 *   h = patches (B * N, P * P * C), each row by row, pixel by pixel, @ patches.weight + patches.bias + positions.weight
 *   h = blocks of gpt.ts over the N patches, none of them masked; h = norm(h)
 *   logits = mean of h over the patches @ head.weight + head.bias                (B, classes)
 *   loss = -log softmax(logits)[class]; a hit is a picture the logit of whose class is larger than all others
 */
export const vit: Architecture<VitSpec> = {
  build: buildVit,
  dataForm: ({ pixels, channels, classes }) => ({ kind: 'images', pixels, channels, classes }),
  check(spec) {
    checkPatches('pixels', spec.pixels, spec.patch);
    checkWidth(spec);
  },
};

function buildVit(spec: VitSpec): Model {
  const { pixels, channels, classes, patch, width } = spec;
  const side = pixels / patch;
  const length = side * side;
  const predict: Model['predict'] = (weights, inputs) => {
    const pictures = inputs.shape[0]!;
    const grid = reshape(inputs, [pictures, side, patch, side, patch, channels]);
    const patches = reshape(transpose(grid, [0, 1, 3, 2, 4, 5]), [
      pictures * length,
      patch * patch * channels,
    ]);
    const h = seen(spec, length, weights, patches);
    const pooled = reduceMean(reshape(h, [pictures, length, width]), [1]);
    return gemm(pooled, weights('head.weight'), { c: weights('head.bias') });
  };
  return {
    tensors: [
      ...patchLayer(patch * patch * channels, length, width),
      ...blocks(spec),
      ...norm('norm', width),
      { name: 'head.weight', shape: [width, classes], start: WEIGHT },
      { name: 'head.bias', shape: [classes], start: 'zeros' },
    ],
    predict,
    losses: (weights, { inputs, targets }) => crossEntropy(predict(weights, inputs), targets),
    hits: (weights, { inputs, targets }) => {
      const logits = predict(weights, inputs);
      const wanted = oneHot(targets, classes, logits.dtype); // (B, classes)
      const targetLogit = reduceSum(mul(logits, wanted), [1]);
      // no ArgMax: its results are 64-bit integers, which WebGPU lacks
      const best = reduceMax(sub(logits, mul(wanted, FAR)), [1]);
      return cast(greater(targetLogit, best), inputs.dtype);
    },
  };
}
