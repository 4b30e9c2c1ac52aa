/** Models and optimizers as plain data, the same on every worker. */
import { choice, type Group, real, row, type Values, whole, yesNo } from '../field.ts';

/** Linear regression: features -> 1 output, mean squared error. */
export interface LinearSpec {
  readonly architecture: 'linear';
  readonly features: number;
}

/** One hidden tanh layer or more, one output, mean squared error. */
export interface MlpSpec {
  readonly architecture: 'mlp';
  readonly features: number;
  readonly hidden: readonly number[];
}

/** Maximum number of halvings: a smaller tier would be little more than the parts that all tiers share. */
export const MOST_TIERS = 8;

/** MatFormer tiers (arXiv 2310.07707): tier t has 1/2^t of each feed-forward layer, and everything else in full. */
export interface Tiers {
  /** The smallest tier of the run. */
  readonly count: number;
  /** Tier of this model, from 0, the full model, to `count`. */
  readonly tier: number;
  /**
   * True in a run with helpers: all slices are as wide as the smallest tier; `helps`: the model has one slice more than
   * its tier.
   */
  readonly even?: boolean;
  readonly helps?: boolean;
}

/**
 * Files from which a tier of a published model is read: the slice if it is complete, otherwise the model; or always one
 * of them.
 */
export const tierStrategies = ['auto', 'sliced', 'universal'] as const;

export type TierStrategy = (typeof tierStrategies)[number];

/** Maximum number of experts: every expert computes every token. */
export const MOST_EXPERTS = 64;

/** A mixture of experts in place of each feed-forward layer; a token passes through one or two of them. */
export interface Experts {
  /** The numbers of each group's experts. Load is balanced within a group. */
  readonly groups: readonly (readonly number[])[];
  readonly perToken: 1 | 2;
  /** Weight of the load-balancing loss in training. */
  readonly balance: number;
  /** The experts of this worker's group: it trains with them alone. Default all experts. */
  readonly home?: readonly number[] | undefined;
}

/** Sizes of the blocks of a transformer. */
export interface BlockShape {
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  /** Width of the hidden layer of each feed-forward block, of the full model in all tiers. */
  readonly ffn: number;
}

/** A decoder-only transformer over token ids, next-token cross-entropy. */
export interface GptSpec extends BlockShape {
  readonly architecture: 'gpt';
  readonly vocabulary: number;
  /** Longest sequence, in tokens. */
  readonly context: number;
  readonly tiers?: Tiers;
  readonly experts?: Experts;
}

const sizes = {
  vocabulary: row('rows of the table of tokens', whole(1, 2 ** 21)),
  width: row('width of the residual stream', whole(1, 65_536)),
  layers: row('number of blocks', whole(1, 1024)),
  heads: row('attention heads per block', whole(1, 1024)),
  ffn: row('hidden width of the feed-forward layers', whole(1, 262_144)),
  normEpsilon: row('added to variances in norms', real(0, 1, 'from')),
  tied: row('the last layer is the table of tokens', yesNo()),
  deviation: row('standard deviation of random first weights', real(0, 1000)),
};

/** Sizes of the model families that can be a base. */
export const shapes = {
  llama: {
    ...sizes,
    keyValueHeads: row('heads of keys and values', whole(1, 1024)),
    headSize: row('width of a head', whole(1, 65_536)),
    queryKeyNorm: row('queries and keys go through a norm of each head', yesNo()),
  },
  gpt2: {
    ...sizes,
    positions: row('rows of the table of positions', whole(1, 2 ** 21)),
    activation: row('of the feed-forward layers', choice(['gelu', 'gelu-tanh', 'relu'])),
  },
} as const satisfies Readonly<Record<string, Group>>;

/** Which linear layers add a bias. */
export const bias = {
  queryKeyValue: row('queries, keys and values add a bias', yesNo()),
  attentionOutput: row('the output of attention adds a bias', yesNo()),
  feedforward: row('feed-forward layers add a bias', yesNo()),
} as const satisfies Group;

const factor = (help: string) => row(help, real(0, 1e12, 'from'));
/** Rotary positions. */
export const ropeBase = { base: factor('base of the rotary frequencies') };
/** How rotary positions reach beyond pretraining, by type. */
export const ropeScalings = {
  linear: { factor: factor('positions are divided by it') },
  llama3: {
    factor: factor('low frequencies are divided by it'),
    lowFrequencyFactor: factor('where low frequencies end'),
    highFrequencyFactor: factor('where high frequencies begin'),
    originalContext: row('context of pretraining', whole(1, 2 ** 31)),
  },
} as const satisfies Readonly<Record<string, Group>>;

/** How rotary positions are extended beyond pretraining; names as in the configs of Hugging Face. */
export type RopeScaling = {
  readonly [K in keyof typeof ropeScalings]: { readonly type: K } & Values<
    (typeof ropeScalings)[K]
  >;
}[keyof typeof ropeScalings];

/** The decoders of Llama, Mistral, Qwen2 and Qwen3: RMSNorm, rotary positions, grouped queries, SwiGLU. */
export interface LlamaSpec extends Values<typeof shapes.llama> {
  readonly architecture: 'llama';
  /** Tokens of one window. */
  readonly context: number;
  readonly rope: Values<typeof ropeBase> & { readonly scaling?: RopeScaling };
  readonly bias: Values<typeof bias>;
  /** Attention window in tokens, including the current one; absent means full attention. */
  readonly window?: number;
  readonly tiers?: Tiers;
  readonly experts?: Experts;
}

/** GPT-2: learned positions, LayerNorm with biases, GELU. */
export interface Gpt2Spec extends Values<typeof shapes.gpt2> {
  readonly architecture: 'gpt2';
  /** Tokens of one window, at most `positions`. */
  readonly context: number;
  readonly tiers?: Tiers;
}

/** Decoders under the tensor names of Hugging Face's files, whose weights can come from published models. */
export type DecoderSpec = LlamaSpec | Gpt2Spec;

/** Number formats of a frozen base: as computed, or with fewer bits. */
export const precisions = ['f32', 'f16', 'q8', 'q4'] as const;

/** Number format of a frozen base. */
export type Precision = (typeof precisions)[number];

/** Number formats of matrix products in training; everything else is f32. */
export const arithmetics = ['f32', 'f16', 'bf16'] as const;

/** Number format of matrix products in training. */
export type Arithmetic = (typeof arithmetics)[number];

/** Loss of a forecast: mean squared error, or three quantiles of every number. */
export const forecastErrors = ['squared', 'quantile'] as const;

export type ForecastError = (typeof forecastErrors)[number];

/** How a series is scaled before the model reads it: by the training part, or also by each window. */
export const scalings = ['window', 'training'] as const;

export type Scaling = (typeof scalings)[number];

/** A transformer over patches of a series, which forecasts the steps after it. */
export interface ForecasterSpec extends BlockShape {
  readonly architecture: 'forecaster';
  readonly channels: number;
  /** Steps of input. */
  readonly context: number;
  /** Steps of forecast. */
  readonly horizon: number;
  /** Steps of a patch. */
  readonly patch: number;
  readonly error: ForecastError;
  readonly scaling: Scaling;
}

/** A vision transformer that classifies square pictures. */
export interface VitSpec extends BlockShape {
  readonly architecture: 'vit';
  /** Pixels per side. */
  readonly pixels: number;
  /** 1 for grey, 3 for colours. */
  readonly channels: number;
  readonly classes: number;
  /** Pixels of the side of a patch. */
  readonly patch: number;
}

/** A built-in model with its sizes. */
export type ModelSpec = LinearSpec | MlpSpec | GptSpec | DecoderSpec | ForecasterSpec | VitSpec;

/** Learning rate by global step: linear warm-up, then a cosine from `learningRate` to `finalShare` of it. */
export interface Schedule {
  readonly learningRate: number;
  readonly warmupSteps: number;
  /** Steps of the whole run; 0 keeps the rate constant after the warm-up. */
  readonly totalSteps: number;
  readonly finalShare: number;
}

export interface SgdSpec {
  readonly optimizer: 'sgd';
  readonly schedule: Schedule;
  /** Largest global gradient norm; 0 does not clip. */
  readonly clipNorm: number;
}

/** AdamW (arXiv 1711.05101): decoupled decay, global-norm clip. */
export interface AdamWSpec {
  readonly optimizer: 'adamw';
  readonly schedule: Schedule;
  readonly clipNorm: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
}

/** Muon (arXiv 2502.16982) for the hidden matrices, AdamW with these numbers for everything else. */
export interface MuonSpec extends Omit<AdamWSpec, 'optimizer'> {
  readonly optimizer: 'muon';
  /** Share of the old momentum that a matrix keeps in every step. */
  readonly momentum: number;
  /** Root mean square of a matrix's step at a learning rate of 1; AdamW's is about 0.2. */
  readonly stepSize: number;
}

/** An inner optimizer with its settings. */
export type OptimizerSpec = SgdSpec | AdamWSpec | MuonSpec;
