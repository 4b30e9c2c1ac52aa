/** What the main thread asks the trainer thread, and what comes back. */

/** Where graphs run. */
export type Device = 'cpu' | 'cuda' | 'webgpu';

export type Elements = Float32Array | Int32Array | Uint8Array | BigInt64Array;

/** One tensor for a model input. */
export interface Feed {
  readonly elements: Elements;
  readonly shape: readonly number[];
}

/** By the name of the input. */
export type Feeds = Readonly<Record<string, Feed>>;

export type DataName = 'shard' | 'validation';

export interface OpenRequest {
  readonly device: Device;
  readonly threads: number;
  /** True: `train` is a Loop over many steps. False: it is one step, called again and again. */
  readonly loops: boolean;
  readonly models: {
    readonly train: Uint8Array;
    readonly evaluate: Uint8Array;
    readonly forward: Uint8Array;
  };
  readonly data: Readonly<Partial<Record<DataName, Feeds>>>;
  /** Names of the state inputs, `params` first, each replaced by the output `<name>.next`. */
  readonly state: readonly string[];
  readonly batch: number;
  readonly rateCount: number;
}

export interface Calls {
  open: { readonly ask: OpenRequest; readonly answer: null };
  /** Sets the state that `advance` moves. */
  begin: {
    readonly ask: readonly Float32Array[];
    readonly answer: null;
  };
  advance: {
    readonly ask: { readonly rates: Float32Array; readonly rows: Int32Array };
    readonly answer: { readonly losses: Float32Array; readonly seconds: number };
  };
  /** Gives the state back. */
  finish: {
    readonly ask: null;
    readonly answer: readonly Float32Array[];
  };
  /** Sets the parameters that `evaluate` and `forward` read. */
  hold: { readonly ask: Float32Array; readonly answer: null };
  /** One loss per row; the number of rows is a multiple of the batch. */
  evaluate: {
    readonly ask: { readonly on: DataName; readonly rows: Int32Array };
    readonly answer: Float32Array;
  };
  forward: { readonly ask: Feed; readonly answer: Float32Array };
}

export type CallName = keyof Calls;

export type Ask = {
  readonly [K in CallName]: {
    readonly id: number;
    readonly call: K;
    readonly ask: Calls[K]['ask'];
  };
}[CallName];

export type Answer =
  | { readonly id: number; readonly ok: true; readonly answer: Calls[CallName]['answer'] }
  | { readonly id: number; readonly ok: false; readonly message: string };
