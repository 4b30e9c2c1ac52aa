/**
 * One published model with adapters and one onnxruntime session for any number of workers of one process, who train in turn: a
 * trainer for each would hold the base and its activations as often. The programs are those of the worker's trainer.
 */

import {
  type CustomModel,
  compileTraining,
  drawRows,
  evenRows,
  initialParameters,
  type LoraSpec,
  loraModel,
  type Tokens,
} from 'nostrain/model';
import { openLocalModel, nodeRuntime as ort } from 'nostrain/node/parts';
import type { AdamWSpec } from 'nostrain/run';
import type { Layout } from 'nostrain/tensor';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import type { PublishedTokenizer } from '../../../src/pretrained/tokenizer.ts';
import { floats, type Tensors, vector } from '../../../src/trainer/runtime.ts';
import { readWeights } from '../../support/read-weights.ts';

export interface LocalOptions {
  readonly base: string;
  readonly context: number;
  readonly batch: number;
  readonly adapter: LoraSpec;
  readonly optimizer: AdamWSpec;
  readonly threads: number;
  readonly seed: number;
}

/** Parameters and moments of one worker. */
export type State = readonly Float32Array[];

export interface LocalSteps {
  readonly corpus: Tokens;
  /** Steps the optimizer has seen, which is also the step of the schedule. */
  readonly seen: number;
  /** Rows of all steps. */
  readonly rows: Int32Array;
}

export interface LocalTrainer {
  readonly layout: Layout;
  readonly tokenizer: PublishedTokenizer;
  /** The adapters' first values. */
  readonly start: Float32Array;
  train(state: State, steps: LocalSteps): Promise<State>;
  /** Mean loss per token over `count` windows spread over the tokens; all windows where it is left out. */
  evaluate(params: Float32Array, tokens: Tokens, count?: number): Promise<number>;
}

export interface Draw {
  readonly key: Parameters<typeof drawRows>[0]['key'];
  readonly round: number;
  readonly steps: number;
}

/** Rows as the worker's trainer draws them. */
export const rowsOf = (
  { key, round, steps }: Draw,
  { batch, context }: Pick<LocalOptions, 'batch' | 'context'>,
  corpus: Tokens,
): Int32Array =>
  drawRows({ key, round, firstStep: 0, steps, batch, bound: corpus.length - context });

const tokensTensor = (tokens: Tokens): Tensor =>
  new Tensor('int32', Int32Array.from(tokens), [tokens.length]);

export async function openLocal(options: LocalOptions): Promise<LocalTrainer> {
  const { batch, context, adapter, optimizer, threads, seed } = options;
  const base = await openLocalModel(options.base, { context });
  const model = loraModel(base.spec, adapter);
  const frozen = frozenTensors(model, await readWeights(base));
  const program = compileTraining(model, optimizer, batch);
  const training = await ort.createSession(program.step(), 'cpu', threads);
  let evaluation: InferenceSession | undefined;
  const names = ['params', ...program.optimizer.moments];
  return {
    layout: program.layout,
    tokenizer: base.tokenizer,
    start: initialParameters(model, seed),
    async train(state, { corpus, seen, rows }) {
      const feeds: Tensors = { ...frozen, corpus: tokensTensor(corpus) };
      names.forEach((name, i) => {
        feeds[name] = vector(ort, state[i]!);
      });
      for (let at = 0; at < rows.length; at += batch) {
        const step = seen + at / batch;
        feeds.rates = vector(ort, Float32Array.from(program.optimizer.rates(step, step)));
        feeds.rows = new Tensor('int32', rows.subarray(at, at + batch));
        const results = await training.run(feeds);
        for (const name of names) feeds[name] = results[`${name}.next`] as Tensor;
      }
      return names.map((name) => floats(feeds[name]));
    },
    async evaluate(params, tokens, count = Number.POSITIVE_INFINITY) {
      evaluation ??= await ort.createSession(program.evaluate(), 'cpu', threads);
      const rows = evenRows(tokens.length - context, context, count);
      const feeds: Tensors = {
        ...frozen,
        corpus: tokensTensor(tokens),
        params: vector(ort, params),
      };
      let sum = 0;
      for (let at = 0; at < rows.length; at += batch) {
        const own = new Int32Array(batch);
        own.set(rows.subarray(at, at + batch));
        const { losses } = await evaluation.run({ ...feeds, rows: new Tensor('int32', own) });
        for (let i = 0; i < Math.min(batch, rows.length - at); i++)
          sum += floats(losses as Tensor)[i]!;
      }
      return sum / rows.length;
    },
  };
}

function frozenTensors(model: CustomModel, weights: ReadonlyMap<string, Float32Array>): Tensors {
  const tensors: Tensors = {};
  for (const { name, shape } of model.frozen ?? []) {
    tensors[name] = new Tensor('float32', weights.get(name)!, shape);
  }
  return tensors;
}
