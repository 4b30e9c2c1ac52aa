/** The interface of a form of data: inputs of the graph, and the data that trainer threads feed. */
import { ConfigError } from '../../base/errors.ts';
import type { Batch } from '../architectures/architecture.ts';
import type { OpenStored, StoredTokens } from '../data/tokens.ts';
import type { Feeds } from '../feeds.ts';
import type { Graph } from '../graph/builder.ts';
import type { Value, ValueType } from '../graph/rule.ts';

/** The worker's training part, or the part it evaluates on. */
export type DataName = 'shard' | 'validation';

/** Tensors with all rows, each `window` entries long, or a file whose windows are read on demand. */
export type Data =
  | { readonly kind: 'feeds'; readonly feeds: Feeds; readonly window: number }
  | { readonly kind: 'stored'; readonly part: StoredTokens; readonly context: number };

/** A worker's data, checked against the model. */
export interface CheckedData {
  /** The data for trainer threads. */
  readonly feeds: Readonly<Partial<Record<DataName, Data>>>;
  /** Whether only some tokens count. */
  readonly masked: boolean;
  /** Returns the number of rows to draw from. */
  bound(on: DataName): number;
  /** Distance between rows for evaluation, chosen so that they do not overlap if there are enough. */
  readonly stride: number;
  /**
   * Returns the offsets of drawn rows in the data. Text without these documents of the corpus moves rows that read one.
   * Throws a ConfigError (`training/data`) if every row reads one.
   */
  offsetsOf(on: DataName, rows: Int32Array, without?: readonly number[]): Int32Array;
  /** Returns the offsets of evenly spaced rows for evaluation. */
  evaluationRows(on: DataName, rows: Int32Array): Int32Array;
}

/** Options that determine the data inputs of a program. */
export interface Reading {
  readonly dtype: 'f32' | 'f64';
  /** Whether only some tokens count. */
  readonly masked: boolean;
}

/** Context for checking a worker's data. */
export interface DataHolder {
  /** Name of the architecture, for messages. */
  readonly model: string;
  readonly openStored: OpenStored;
}

/** A form of data with given sizes; `D` is the type of a worker's data. */
export interface FormRules<D> {
  /** The `kind` of the worker's data. */
  readonly data: string;
  /** Description of the data for messages. */
  readonly says: string;
  /** Tokens per row, for throughput; 1 for forms other than text. */
  readonly tokensPerRow: number;
  /** Work of a row, in tokens, for dividing batches between threads; `tokensPerRow` where undefined. */
  readonly workPerRow?: number;
  /** Declares the inputs. Returns a function from row offsets to a batch. */
  open(graph: Graph, reading: Reading): (rows: Value) => Batch;
  /** Returns the type of the input for predicting one row. */
  single(dtype: 'f32' | 'f64'): ValueType;
  /** Checks a worker's data. Throws a ConfigError (`training/data`) if it is inconsistent or does not fit the model. */
  hold(data: D, holder: DataHolder): CheckedData;
  /** Returns placeholder data, for measuring. */
  anything(): D;
}

/** Throws if a form other than text is masked. */
export function refuseMasked({ masked }: Reading): void {
  if (masked) throw new ConfigError('training/data', 'only tokens can be masked');
}

export const unfit = (message: string, hint?: string): ConfigError =>
  new ConfigError('training/data', message, hint === undefined ? {} : { hint });
