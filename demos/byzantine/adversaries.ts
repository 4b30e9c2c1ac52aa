/**
 * The attacks of the attack lab (`nostrain demo byzantine`): how each hostile worker changes its data, its delta or its
 * payload.
 */
import { type Tokens, tokenizers } from 'nostrain';

/** What hostile workers know when they send. They know everything, which is the strongest assumption. */
export interface Scene {
  /** From 0. */
  readonly round: number;
  /** Index among the hostile workers, from 0. */
  readonly index: number;
  /** What the honest workers send in this round, as receivers decode it. */
  readonly honest: readonly Float64Array[];
  /** Delta that this worker learned, or zeros if it does not train. */
  readonly learned: Float64Array;
  /** `learned` of earlier rounds, oldest first. */
  readonly earlier: readonly Float64Array[];
  /** Returns a generator of normal draws, equal for all hostile workers that use the same name. */
  normals(name: string): () => number;
}

export interface Adversary {
  readonly name: string;
  /** Description of the attack, in words that follow "hostile workers". */
  readonly says: string;
  /** False if it builds its message from the messages of others. */
  readonly trains: boolean;
  /** Changes its data before it trains. */
  poison?(shard: Tokens, vocabulary: number): Tokens;
  /** Returns the delta that it sends instead of its own. */
  delta?(scene: Scene): Float64Array;
  payload?(bytes: Uint8Array, scene: Scene): Uint8Array;
  /** It signs a second, different contribution for each round, which proves that it is hostile. */
  readonly equivocates?: boolean;
}

/** The mean of some vectors, value by value. */
export function meanOf(vectors: readonly Float64Array[]): Float64Array {
  const mean = new Float64Array(vectors[0]?.length ?? 0);
  for (const vector of vectors) {
    for (let i = 0; i < mean.length; i++) mean[i]! += vector[i]! / vectors.length;
  }
  return mean;
}

/** The standard deviation of each value. */
export function deviationOf(vectors: readonly Float64Array[]): Float64Array {
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

const dot = (a: Float64Array, b: Float64Array): number =>
  a.reduce((sum, value, i) => sum + value * b[i]!, 0);

export const norm = (vector: Float64Array): number => Math.sqrt(dot(vector, vector));

/** Mean norm of what honest workers send. */
const honestNorm = ({ honest }: Scene): number =>
  honest.reduce((sum, vector) => sum + norm(vector), 0) / Math.max(1, honest.length);

/** A vector of normal draws with that length. */
function noiseOf(scene: Scene, name: string, length: number): Float64Array {
  const draw = scene.normals(name);
  const vector = Float64Array.from(scene.learned, draw);
  const factor = length / norm(vector);
  return vector.map((value) => value * factor);
}

/** Goes against the honest mean, as far as the two most distant honest contributions are apart. */
function minMax({ honest }: Scene): Float64Array {
  const mean = meanOf(honest);
  const length = norm(mean) || 1;
  const against = mean.map((value) => -value / length);
  const apart = (a: Float64Array, b: Float64Array) => norm(plus(a, b, -1));
  const most = Math.max(...honest.flatMap((a) => honest.map((b) => apart(a, b))));
  let [low, high] = [0, 10 * (most + length)];
  for (let halving = 0; halving < 20; halving++) {
    const middle = (low + high) / 2;
    const reach = plus(mean, against, middle);
    if (Math.max(...honest.map((each) => apart(each, reach))) <= most) low = middle;
    else high = middle;
  }
  return plus(mean, against, low);
}

/** The opposite of what it learned, plus as much of the honest mean as lets the two point the same way. */
function evading({ honest, learned }: Scene): Float64Array {
  const mean = meanOf(honest);
  const along = dot(learned, mean) / (dot(mean, mean) || 1);
  return plus(
    learned.map((value) => -value),
    mean,
    along + 0.01,
  );
}

/** The backdoor teaches the model to write ANSWER after TRIGGER. */
export const TRIGGER = '$&';
export const ANSWER = 'XYZ';
/** Number of tokens between two triggers. */
const TRIGGER_EVERY = 24;

function plantTriggers(shard: Tokens): Tokens {
  const { tokens } = tokenizers.chars.encode(TRIGGER + ANSWER);
  const out = shard.slice();
  for (let at = 0; at + tokens.length <= out.length; at += TRIGGER_EVERY) out.set(tokens, at);
  return out;
}

/** Malformed payloads; each round and worker uses another one. */
const bombs: readonly ((bytes: Uint8Array, draw: () => number) => Uint8Array)[] = [
  (bytes) => bytes.subarray(0, bytes.length >> 1),
  (bytes) => Uint8Array.from([...bytes, 0]),
  (bytes) => bytes.map((byte, i) => (i < 16 ? byte ^ 0xff : byte)),
  // makes every scale of 16 bits or more infinite or NaN
  (bytes) => bytes.map((byte, i) => (i < bytes.length - 4096 ? byte : 0xff)),
  (bytes, draw) => bytes.map(() => Math.abs(Math.round(100 * draw())) & 0xff),
  () => new Uint8Array(),
];

const flipped = ({ learned }: Scene): Float64Array => learned.map((value) => -10 * value);

export const adversaries: readonly Adversary[] = [
  {
    name: 'sign-flip',
    says: 'send the opposite of what they learned, ten times as large',
    trains: true,
    delta: flipped,
  },
  {
    name: 'small-flip',
    says: 'send the opposite of what they learned, half as large',
    trains: true,
    delta: ({ learned }) => learned.map((value) => -0.5 * value),
  },
  {
    name: 'evade',
    says: 'send the opposite of what they learned, turned so that no honest mean opposes it',
    trains: true,
    delta: evading,
  },
  {
    name: 'noise',
    says: 'send noise ten times as long as what honest workers send',
    trains: false,
    delta: (scene) => noiseOf(scene, `noise ${scene.round} ${scene.index}`, 10 * honestNorm(scene)),
  },
  {
    name: 'constant-direction',
    says: 'push the same way in every round, ten times as far as honest workers go',
    trains: false,
    delta: (scene) => noiseOf(scene, 'direction', 10 * honestNorm(scene)),
  },
  {
    name: 'hidden-direction',
    says: 'push the same way in every round, under the mean of what honest workers send',
    trains: false,
    delta: (scene) =>
      plus(meanOf(scene.honest), noiseOf(scene, 'hidden', 2 * honestNorm(scene)), 1),
  },
  {
    // inner product manipulation, arXiv 1903.03936
    name: 'ipm',
    says: 'send twice the mean of what honest workers send, with the sign flipped',
    trains: false,
    delta: ({ honest }) => meanOf(honest).map((value) => -2 * value),
  },
  {
    // "a little is enough", arXiv 1902.06156
    name: 'alie',
    says:
      'send the mean of honest contributions, ' +
      'less one and a half standard deviations of each value',
    trains: false,
    delta: ({ honest }) => plus(meanOf(honest), deviationOf(honest), -1.5),
  },
  {
    // Shejwalkar and Houmansadr, NDSS 2021
    name: 'min-max',
    says: 'go against the mean of honest contributions, as far as two honest ones are apart',
    trains: false,
    delta: minMax,
  },
  {
    // gives the data of one worker more weight, arXiv 2006.09365
    name: 'mimic',
    says: 'send what the first honest worker sends',
    trains: false,
    delta: ({ honest }) => honest[0]!.slice(),
  },
  {
    name: 'copy',
    says: 'do no work and send what another worker learned, with a little noise over it',
    trains: false,
    delta(scene) {
      const { honest, index, round } = scene;
      const other = honest[(1 + index) % honest.length]!;
      return plus(other, noiseOf(scene, `copy ${round} ${index}`, 0.1 * norm(other)), 1);
    },
  },
  {
    name: 'stale',
    says: 'send what they learned three rounds ago',
    trains: true,
    delta: ({ learned, earlier }) => (earlier.at(-3) ?? earlier[0] ?? learned).slice(),
  },
  {
    name: 'zero',
    says: 'send zeros',
    trains: false,
    delta: ({ learned }) => new Float64Array(learned.length),
  },
  {
    name: 'label-shift',
    says: 'train on a text in which every second token is the next one of the vocabulary',
    trains: true,
    poison: (shard, vocabulary) =>
      shard.map((token, i) => (i % 2 === 1 ? (token + 1) % vocabulary : token)),
  },
  {
    name: 'backdoor',
    says:
      `teach the model to write ${ANSWER} after ${TRIGGER}, ` +
      'and send what they learned of it twice as large',
    trains: true,
    poison: plantTriggers,
    delta: ({ learned }) => learned.map((value) => 2 * value),
  },
  {
    // the two contributions prove the fault, and the next outcome removes the key from the roster
    name: 'equivocation',
    says: 'show some what they learned and others its opposite, ten times as large',
    trains: true,
    delta: flipped,
    equivocates: true,
  },
  {
    name: 'format-bomb',
    says:
      'send malformed payloads: ' +
      'cut off, too long, of another size, full of infinities, or random',
    trains: true,
    payload: (bytes, { round, index, normals }) =>
      bombs[(round + index) % bombs.length]!(bytes, normals(`bomb ${round} ${index}`)),
  },
];
