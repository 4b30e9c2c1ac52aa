/** What one form of data brings: inputs of the graph, and what trainer threads are fed of a worker's data. */
import { ConfigError } from '../../base/errors.ts';
import type { Batch } from '../architectures/architecture.ts';
import type { OpenStored, StoredTokens } from '../data/tokens.ts';
import type { Graph } from '../graph/builder.ts';
import type { Value, ValueType } from '../graph/rule.ts';

/** u16 numbers are the bits of f16 ones. */
export type Elements =
  | Float32Array
  | Uint16Array
  | Int32Array
  | Int8Array
  | Uint8Array
  | BigInt64Array;

/** One tensor for a model input. */
export interface Feed {
  readonly elements: Elements;
  readonly shape: readonly number[];
}

/** By the name of the input. */
export type Feeds = Readonly<Record<string, Feed>>;

/** A worker's own part of the data, and the part on which it evaluates. */
export type DataName = 'shard' | 'validation';

/** Inputs that hold all rows, each `window` entries long, or a file whose windows are read on demand. */
export type Data =
  | { readonly kind: 'feeds'; readonly feeds: Feeds; readonly window: number }
  | { readonly kind: 'stored'; readonly part: StoredTokens; readonly context: number };

/** A worker's data, checked against the model. */
export interface CheckedData {
  /** As trainer threads take it. */
  readonly feeds: Readonly<Partial<Record<DataName, Data>>>;
  /** Only some tokens of it count. */
  readonly masked: boolean;
  /** How many rows a batch may draw from. */
  bound(on: DataName): number;
  /** How far apart the rows are that are evaluated on: so that they share nothing, where there are enough of them. */
  readonly stride: number;
  /** Where rows that were drawn lie in the data. */
  offsetsOf(on: DataName, rows: Int32Array): Int32Array;
  /** The same of rows that were taken evenly, to evaluate on. */
  evaluationRows(on: DataName, rows: Int32Array): Int32Array;
}

/** What decides over the data inputs of a program. */
export interface Reading {
  readonly dtype: 'f32' | 'f64';
  /** Only some tokens count. */
  readonly masked: boolean;
}

/** What a worker's data is held against. */
export interface DataHolder {
  /** The architecture, for people. */
  readonly model: string;
  readonly openStored: OpenStored;
}

/** A form of data at given sizes; `D` is what a worker has of it. */
export interface FormRules<D> {
  /** The `kind` of such data. */
  readonly data: string;
  /** What the model trains on, in words. */
  readonly says: string;
  /** Tokens per example for throughput counters; 1 where an example is one thing. */
  readonly tokensPerRow: number;
  /** Names of the inputs that hold data. */
  inputs(masked: boolean): readonly string[];
  /** Declares them, and gives the batch at any rows of the data. */
  open(graph: Graph, reading: Reading): (rows: Value) => Batch;
  /** What a prediction reads: one row. */
  single(dtype: 'f32' | 'f64'): ValueType;
  /** Throws a `ConfigError` (`training/data`) where the data does not fit the model or itself. */
  hold(data: D, holder: DataHolder): CheckedData;
  /** Rows that any numbers would do for. */
  anything(): D;
}

/** Only text has tokens of which some do not count. */
export function refuseMasked({ masked }: Reading): void {
  if (masked) throw new ConfigError('training/data', 'only tokens can be left uncounted');
}

export const unfit = (message: string, hint?: string): ConfigError =>
  new ConfigError('training/data', message, hint === undefined ? {} : { hint });
