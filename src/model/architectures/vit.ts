/**
 * A small vision transformer (arXiv 2010.11929, with the mean of all patches in place of a class token, arXiv 2205.01580).
 *
 * Sizes: B pictures of S x S pixels with C channels from -1 to 1, patches of P x P pixels, N = (S / P)^2 of them, row by row, D = width.
 *
 *   h = patches (B * N, P * P * C), each row by row, pixel by pixel, @ patches.weight + patches.bias + positions.weight
 *   h = blocks of gpt.ts over the N patches, none of them masked; h = norm(h)
 *   logits = mean of h over the patches @ head.weight + head.bias                (B, classes)
 *   loss = -log softmax(logits)[class]; a hit is a picture the logit of whose class is larger than all others
 */
import type { VitSpec } from '../../run/spec/model-spec.ts';
import {
  add,
  cast,
  crossEntropy,
  gemm,
  greater,
  mul,
  oneHot,
  reduceMax,
  reduceMean,
  reduceSum,
  reshape,
  sub,
  transpose,
} from '../graph/verbs.ts';
import type { Architecture, Model } from './architecture.ts';
import { blocks, norm, normed, patchLayer, throughBlocks, WEIGHT } from './transformer.ts';

/** Below every logit. */
const FAR = 1e30;

export const vit: Architecture<VitSpec> = (spec) => {
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
    const embedded = gemm(patches, weights('patches.weight'), { c: weights('patches.bias') });
    const placed = add(reshape(embedded, [pictures, length, width]), weights('positions.weight'));
    const rows = reshape(placed, [pictures * length, width]);
    const h = throughBlocks({ ...spec, length, causal: false }, weights, rows);
    const pooled = reduceMean(reshape(normed(weights, h), [pictures, length, width]), [1]);
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
      const own = reduceSum(mul(logits, wanted), [1]);
      // WebGPU has no numbers of 64 bits, in which places of largest ones are told
      const best = reduceMax(sub(logits, mul(wanted, FAR)), [1]);
      return cast(greater(own, best), inputs.dtype);
    },
  };
};
