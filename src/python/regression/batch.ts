/** What one step of gradient descent is taken on. */
export interface Batch {
  /** Rows of the dataset, in order; a row may come up more than once. */
  readonly rows: readonly number[];
  readonly learningRate: number;
}
