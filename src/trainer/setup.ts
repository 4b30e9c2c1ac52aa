/** What a trainer is given, checked before it is opened and once it is: what is wrong with a model or its data is no fault of the device. */
import { ConfigError } from '../base/errors.ts';
import type { FrozenTensor, TokenForm } from '../model/architectures/architecture.ts';
import { type AnyModel, modelOf } from '../model/architectures/table.ts';
import { assertTokens, storeTokens } from '../model/data/tokens.ts';
import { dataFormOf } from '../model/data-form.ts';
import { initialParameters } from '../model/parameters.ts';
import { narrow, partsOf } from '../model/precision.ts';
import type { OptimizerSpec } from '../run/model-spec.ts';
import type { Engine } from './engine.ts';
import type { Data, DataName, Device, Feed, Feeds } from './messages.ts';
import {
  isMasked,
  nextCounted,
  type OpenStored,
  openTokens,
  type TokenPart,
  tokensIn,
} from './token-reader.ts';

export interface RegressionRows {
  /** Row after row. */
  readonly inputs: Float32Array;
  readonly targets: Float32Array;
}

export type TrainerData =
  | { readonly kind: 'tokens'; readonly shard: TokenPart; readonly validation: TokenPart }
  | ({
      readonly kind: 'regression';
      readonly features: number;
      readonly validation?: RegressionRows;
    } & RegressionRows);

/** The numbers of a frozen tensor, or what reads them. */
export type FrozenNumbers = Float32Array | (() => Promise<Float32Array>);

/** What `createTrainer` takes: model, optimizer, data and device. */
export interface TrainerSetup {
  readonly model: AnyModel;
  readonly optimizer: OptimizerSpec;
  /** Rows per step. */
  readonly batch: number;
  readonly data: TrainerData;
  /** `auto` is CUDA where it works, else the CPU; WebGPU only when asked for. */
  readonly device: 'auto' | Device;
  /**
   * Makes the model's frozen tensors by name, or says how to read each one: then no two of them are in memory in f32 at once. Called
   * once for each thread, which takes the arrays over.
   */
  readonly frozen?: () => Promise<Readonly<Record<string, FrozenNumbers>>>;
  /** Computes the inside of layers again for backward: less memory, a third more time. */
  readonly recompute?: boolean;
  /** Micro-batches of every step, one after the other; as they need less memory, replicas are then not used. */
  readonly accumulate?: number;
  /** Defaults to the physical cores. */
  readonly threads?: number;
}

/** Throws a `ConfigError` where the data does not fit the model or itself. */
export function checkSetup({ model, data, batch }: TrainerSetup, openStored: OpenStored): void {
  if (!Number.isSafeInteger(batch) || batch < 1) {
    throw new ConfigError('training/batch', `batch must be whole and positive, not ${batch}`);
  }
  const form = dataFormOf(model);
  if (form.kind === 'tokens') {
    if (data.kind !== 'tokens') {
      const name = model.architecture;
      throw unfit(`a ${name} model trains on tokens, not on feature rows`);
    }
    checkTokens(data, form, openStored);
    return;
  }
  if (data.kind !== 'regression' || data.features !== form.features) {
    throw unfit(`the model trains on rows of ${form.features} features`);
  }
  checkRows(data, form.features, '');
  if (data.validation) checkRows(data.validation, form.features, 'validation ');
}

type TokenData = Extract<TrainerData, { readonly kind: 'tokens' }>;

function checkTokens(
  { shard, validation }: TokenData,
  { context, vocabulary }: TokenForm,
  openStored: OpenStored,
): void {
  const length = tokensIn(shard);
  if (length <= context) {
    throw unfit(
      `the shard has ${length} tokens, but one window needs ${context + 1}`,
      'use more text, fewer workers or a shorter model.context',
    );
  }
  if (isMasked(shard) !== isMasked(validation)) {
    throw unfit('tokens may be left uncounted in both parts of the data or in none');
  }
  for (const part of [shard, validation]) {
    if ('tokens' in part && part.tokens.length !== part.counted.length) {
      throw unfit(`${part.tokens.length} tokens need as many marks, not ${part.counted.length}`);
    }
    // those of a file are looked at as they are read
    if (!('file' in part)) assertTokens('tokens' in part ? part.tokens : part, vocabulary);
  }
  for (const [name, part] of Object.entries({ shard, validation })) {
    const reader = openTokens(part, openStored);
    const counts = nextCounted(reader, 1) !== undefined;
    reader.close();
    if (counts || tokensIn(part) <= context) continue;
    throw unfit(`no token of the ${name} data counts`, 'give data with answers to learn from');
  }
}

/** The data as the trainer threads take it. */
export function dataOf({ data, model }: TrainerSetup): Partial<Record<DataName, Data>> {
  if (data.kind === 'tokens') {
    const form = dataFormOf(model);
    const { context, vocabulary } = form.kind === 'tokens' ? form : { context: 0, vocabulary: 0 };
    const held = (part: TokenPart): Data => {
      if ('file' in part) return { kind: 'stored', part, context };
      const tokens = storeTokens('tokens' in part ? part.tokens : part, vocabulary);
      const shape = [tokens.length];
      const counted = 'tokens' in part && { counted: { elements: part.counted, shape } };
      const feeds = { corpus: { elements: tokens, shape }, ...counted };
      return { kind: 'feeds', feeds, window: context + 1 };
    };
    return { shard: held(data.shard), validation: held(data.validation) };
  }
  const rows = ({ inputs, targets }: RegressionRows): Data => {
    const shape = [targets.length, data.features];
    const wanted = { elements: targets, shape: [targets.length] };
    const feeds = { inputs: { elements: inputs, shape }, targets: wanted };
    return { kind: 'feeds', feeds, window: 1 };
  };
  return {
    shard: rows(data),
    ...(data.validation === undefined ? {} : { validation: rows(data.validation) }),
  };
}

/** The frozen tensors in the shapes of the model. Throws a ConfigError when one is missing or of another size. */
export async function frozenOf({
  model,
  frozen,
}: Pick<TrainerSetup, 'model' | 'frozen'>): Promise<Feeds> {
  const tensors = modelOf(model).frozen ?? [];
  const arrays = tensors.length === 0 ? {} : await frozen?.();
  const feeds: Record<string, Feed> = {};
  for (const tensor of tensors) {
    const numbers = arrays?.[tensor.name];
    const elements = typeof numbers === 'function' ? await numbers() : numbers;
    const held = narrow(checkFrozen(tensor, elements), tensor);
    partsOf(tensor).forEach(({ name, shape }, i) => {
      feeds[name] = { elements: held[i]!, shape };
    });
  }
  return feeds;
}

function checkFrozen({ name, shape }: FrozenTensor, elements?: Float32Array): Float32Array {
  const size = shape.reduce((product, dim) => product * dim, 1);
  if (elements?.length === size) return elements;
  const found = elements === undefined ? 'is missing' : `has ${elements.length} numbers`;
  throw new ConfigError('training/frozen', `frozen tensor ${name} ${found}; it needs ${size}`, {
    hint: 'give the tensors of the model that the parameters belong to',
  });
}

function checkRows({ inputs, targets }: RegressionRows, features: number, of: string): void {
  if (targets.length === 0) throw unfit(`the ${of}data has no rows`, 'give at least one row');
  const needed = targets.length * features;
  if (inputs.length === needed) return;
  throw unfit(
    `${of}inputs has ${inputs.length} numbers; ${targets.length} targets of ${features} features need ${needed}.`,
  );
}

const unfit = (message: string, hint?: string): ConfigError =>
  new ConfigError('training/data', message, hint === undefined ? {} : { hint });

/** Throws `model/losses` where a model of the user's own gives a loss that is no number, with its first parameters and rows of its data. */
export async function checkFirstLosses(
  { model, data }: TrainerSetup,
  engine: Pick<Engine, 'hold' | 'evaluate' | 'rows'>,
): Promise<void> {
  if (model.architecture !== 'own') return;
  const form = dataFormOf(model);
  const length = data.kind === 'tokens' ? tokensIn(data.shard) : data.targets.length;
  const bound = form.kind === 'tokens' ? length - form.context : length;
  const rows = Int32Array.from({ length: engine.rows }, (_, i) => i % bound);
  await engine.hold(initialParameters(model, 1));
  const { losses } = await engine.evaluate('shard', rows);
  const at = losses.findIndex((loss) => !Number.isFinite(loss));
  if (at < 0) return;
  throw new ConfigError(
    'model/losses',
    `Your model's loss of row ${rows[at]} is ${losses[at]} with its first parameters.`,
    { hint: 'look for logarithms or divisions of 0, in the losses and in that row of the data' },
  );
}
