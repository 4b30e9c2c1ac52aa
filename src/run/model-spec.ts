/** What is trained and how one inner step is taken: plain data, chosen by a person, the same on every worker. */

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

/** A decoder-only transformer over token ids, next-token cross-entropy. */
export interface GptSpec {
  readonly architecture: 'gpt';
  readonly vocabulary: number;
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  /** Longest sequence, in tokens. */
  readonly context: number;
  /** Width of the hidden layer of each feed-forward block. */
  readonly ffn: number;
}

export type ModelSpec = LinearSpec | MlpSpec | GptSpec;

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
  /** Share of its old momentum that a matrix keeps in every step. */
  readonly momentum: number;
  /** Root mean square of a matrix's step at a learning rate of 1; AdamW's is about 0.2. */
  readonly stepSize: number;
}

export type OptimizerSpec = SgdSpec | AdamWSpec | MuonSpec;
