/** What a hostile worker of the attack lab is: one file each, used by the demo and by tests alike. */
import type { Tokens } from '../../../src/model/data/tokens.ts';

/** What hostile workers know when they send: everything. Nobody has to assume less. */
export interface Scene {
  /** From 0. */
  readonly round: number;
  readonly workers: number;
  readonly hostile: number;
  /** Which of the hostile ones it is, from 0. */
  readonly index: number;
  /** What the honest workers send in this round, as receivers decode it. */
  readonly honest: readonly Float64Array[];
  /** What this worker learned, if it trains at all; else zeros. */
  readonly own: Float64Array;
  /** The same of the rounds before, oldest first. */
  readonly past: readonly Float64Array[];
  /** Normal draws, the same for every hostile worker that gives the same name. */
  normals(name: string): () => number;
}

export interface Adversary {
  readonly name: string;
  /** What it does, in words that follow "hostile workers". */
  readonly says: string;
  /** Whether it trains; one that makes its message of the others' does not. */
  readonly trains: boolean;
  /** Changes its data before it trains. */
  poison?(shard: Tokens, vocabulary: number): Tokens;
  /** What it sends instead of what it learned. */
  delta?(scene: Scene): Float64Array;
  /** What becomes of the bytes that carry it. */
  payload?(bytes: Uint8Array, scene: Scene): Uint8Array;
  /** It signs a second, other contribution for each round, which proves it hostile. */
  readonly equivocates?: boolean;
}

/** Each value of some vectors' mean. */
export function meanOf(vectors: readonly Float64Array[]): Float64Array {
  const mean = new Float64Array(vectors[0]?.length ?? 0);
  for (const vector of vectors) {
    for (let i = 0; i < mean.length; i++) mean[i]! += vector[i]! / vectors.length;
  }
  return mean;
}

/** The standard deviation of each value. */
export function spreadOf(vectors: readonly Float64Array[]): Float64Array {
  const mean = meanOf(vectors);
  const out = new Float64Array(mean.length);
  for (const vector of vectors) {
    for (let i = 0; i < out.length; i++) out[i]! += (vector[i]! - mean[i]!) ** 2;
  }
  return out.map((sum) => Math.sqrt(sum / Math.max(1, vectors.length - 1)));
}

/** a + factor x b. */
export const plus = (a: Float64Array, b: Float64Array, factor: number): Float64Array =>
  a.map((value, i) => value + factor * b[i]!);

export const norm = (vector: Float64Array): number =>
  Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));

/** How long what honest workers send is, in the mean. */
export const honestNorm = ({ honest }: Pick<Scene, 'honest'>): number =>
  honest.reduce((sum, vector) => sum + norm(vector), 0) / Math.max(1, honest.length);

/** A vector of normal draws with that length. */
export function noiseOf(scene: Scene, name: string, length: number): Float64Array {
  const draw = scene.normals(name);
  const vector = Float64Array.from(scene.own, draw);
  const factor = length / norm(vector);
  return vector.map((value) => value * factor);
}
