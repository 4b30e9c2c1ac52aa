/**
 * Range coding of many values into a byte budget (docs/payload.md, after DeepCABAC, arXiv 1905.08318). The step is
 * found from a histogram of magnitudes and an encoded sample. Uses only sums, products and roots: same bits on every
 * engine.
 */
import { ok, type Result, refuse } from '../../base/errors.ts';
import { COUNTED, LONG_BITS, MOST_CODE, readCodes, writeCodes } from './range-coder.ts';
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from './value-code.ts';

/** Quantized values: code 0 is 0, ±1 is ±`first`, and each further unit adds `step`. */
export interface Coded {
  readonly codes: Int8Array;
  readonly first: number;
  readonly step: number;
}

const LEVEL_BYTES = 4;
const MOST_LENGTHENED = 4;
/** Returns the maximum bytes of `count` values. */
export const codedBytesAtMost = (count: number): number => LEVEL_BYTES + 4 + 5 * count;

/** Returns the least-squares levels of quantized values: the first level and the step. */
function fitLevels(
  values: Float32Array,
  codes: Int8Array,
  targetStep: number,
): readonly [number, number] {
  const sums = new Float64Array(MOST_CODE + 1);
  const counts = new Uint32Array(MOST_CODE + 1);
  for (let i = 0; i < codes.length; i++) {
    const size = Math.abs(codes[i]!);
    sums[size]! += Math.abs(values[i]!);
    counts[size]!++;
  }
  const start = counts[1]! > 0 ? sums[1]! / counts[1]! : targetStep;
  let [weight, beyond] = [0, 0];
  for (let size = 2; size <= MOST_CODE; size++) {
    weight += (size - 1) * (size - 1) * counts[size]!;
    beyond += (size - 1) * (sums[size]! - start * counts[size]!);
  }
  return [start, weight > 0 ? Math.max(0, beyond / weight) : 0];
}

interface CodingOptions {
  readonly at: number;
  readonly maxBytes: number;
  /**
   * Whether levels are lengthened to compensate for values that round to 0, so that the decoded vector keeps its length
   * along the original.
   */
  readonly isLengthened?: boolean;
}

/** Returns the factor by which levels are lengthened (EDEN, arXiv 2108.08842), at most 4. */
function lengthening(
  values: Float32Array,
  codes: Int8Array,
  [first, step]: readonly [number, number],
): number {
  let [energy, along] = [0, 0];
  for (let i = 0; i < codes.length; i++) {
    const value = values[i]!;
    const size = Math.abs(codes[i]!);
    energy += value * value;
    if (size > 0) along += Math.abs(value) * (first + (size - 1) * step);
  }
  return Math.min(MOST_LENGTHENED, energy / along);
}

/** Encodes finite values into at most `maxBytes` from `at` on; encodes zeros if nothing else fits. */
export function writeCoded(
  values: Float32Array,
  out: Uint8Array,
  { at, maxBytes, isLengthened = false }: CodingOptions,
): Coded & { readonly end: number } {
  const codes = new Int8Array(values.length);
  if (values.length === 0) return { codes, first: 0, step: 0, end: at };
  let [last, bytes] = [0, 0];
  const attempt = (tried: number): number => {
    quantize(values, tried, codes);
    last = tried;
    bytes = writeCodes(codes, out.subarray(0, at + maxBytes), at + LEVEL_BYTES);
    return bytes;
  };
  const targetStep = stepFor(values, maxBytes - LEVEL_BYTES, attempt);
  if (targetStep > 0 && targetStep !== last) attempt(targetStep);
  const isEmpty = targetStep === 0 || codes.every((code) => code === 0);
  const fitted = isEmpty ? ([0, 0] as const) : fitLevels(values, codes, targetStep);
  const by = isLengthened && !isEmpty ? lengthening(values, codes, fitted) : 1;
  const [first, step] = [by * fitted[0], by * fitted[1]];
  if (levelBits(first) === 0) {
    out.fill(0, at, at + maxBytes);
    return { codes: codes.fill(0), first: 0, step: 0, end: at + LEVEL_BYTES };
  }
  writeLevelBits(out, at, levelBits(first));
  writeLevelBits(out, at + 2, levelBits(step));
  const end = at + LEVEL_BYTES + bytes;
  return { codes, first: levelOf(levelBits(first)), step: levelOf(levelBits(step)), end };
}

/** Decodes `count` values from another worker; returns them with the end offset, or refuses what is not canonical. */
export function readCoded(
  bytes: Uint8Array,
  at: number,
  count: number,
): Result<Coded & { readonly end: number }> {
  const wrong = (why: string) => refuse(why, 'values', `coded values: ${why}`);
  if (count === 0) return ok({ codes: new Int8Array(0), first: 0, step: 0, end: at });
  if (bytes.length < at + LEVEL_BYTES) return wrong('truncated');
  const [first, step] = [readLevelBits(bytes, at), readLevelBits(bytes, at + 2)];
  if (!isLevel(first) || !isLevel(step)) return wrong('bad-level');
  const codes = new Int8Array(count);
  if (first === 0) {
    return step === 0
      ? ok({ codes, first: 0, step: 0, end: at + LEVEL_BYTES })
      : wrong('bad-level');
  }
  const { largest, end, isWhole } = readCodes(bytes, at + LEVEL_BYTES, codes);
  if (largest > MOST_CODE) return wrong('bad-value');
  if (end > bytes.length) return wrong('truncated');
  if (!isWhole) return wrong('bad-padding');
  // refuse a level that no value uses: the same update would have several encodings
  if (largest === 0 || (step !== 0 && largest === 1)) return wrong('bad-level');
  return ok({ codes, first: levelOf(first), step: levelOf(step), end });
}

/** Returns the value of each code, at index code + MOST_CODE. */
export function levelsOf({ first, step }: Coded): Float64Array {
  const levels = new Float64Array(2 * MOST_CODE + 1);
  for (let size = 1; size <= MOST_CODE; size++) {
    const level = first + (size - 1) * step;
    levels[MOST_CODE + size] = level;
    levels[MOST_CODE - size] = -level;
  }
  return levels;
}

type Attempt = (step: number) => number;

/** A magnitude below this many steps becomes 0. A wide dead zone loses least at about one bit per value. */
const DEAD_ZONE = 0.6;
/** Maximum number of encodings, target share of the budget, and share at which the search stops. */
const [TRIES, TARGET_SHARE, FULL] = [5, 0.997, 0.99];
/** Values per sample, one sample in how many ranges of that length, and the most samples taken. */
const [SAMPLE_LENGTH, SAMPLE_SPACING, MAX_SAMPLES] = [256, 16, 160];
/** Bits of a float dropped in the histogram, and its bins: 64 per power of two. */
const [DROPPED, KINDS] = [17, 16_384];
const HALVINGS = 24;
/**
 * Bytes that adaptive coding needs to learn and to end, and the smallest believable ratio of actual to estimated bytes.
 */
const [LEARNING, LEAST_RATIO] = [20, 0.05];

function quantize(values: Float32Array, step: number, codes: Int8Array): void {
  const bits = new Int32Array(values.buffer, values.byteOffset, values.length);
  const [perStep, shift, most] = [1 / step, 1 - DEAD_ZONE, MOST_CODE];
  for (let i = 0; i < values.length; i++) {
    const size = Math.min(most, Math.abs(values[i]! * perStep) + shift) | 0;
    const negative = bits[i]! >> 31;
    codes[i] = (size ^ negative) - negative;
  }
}

/** Returns the finest step found whose values take at most `maxBytes`; 0 if no step does. */
function stepFor(values: Float32Array, maxBytes: number, attempt: Attempt): number {
  const census = countMagnitudes(values);
  const finest = census.largest / MOST_CODE;
  if (levelBits(finest) === 0) return 0;
  let [ratio, best] = [sampledRatio(values, census, maxBytes), 0];
  for (let i = 0, last = 0; i < TRIES; i++) {
    const step = finestWithin(census, ((TARGET_SHARE - 0.002 * i) * maxBytes - LEARNING) / ratio);
    if (step === last) break;
    const bytes = attempt(step);
    if (bytes <= maxBytes && (best === 0 || step < best)) best = step;
    if (bytes <= maxBytes && (bytes >= FULL * maxBytes || step === finest)) return step;
    const expected = bytesOf(census, step);
    if (expected > 0) ratio = Math.max(LEAST_RATIO, (bytes - LEARNING) / expected);
    last = step;
  }
  // last resort: coarsen until the values fit or all of them are 0
  const coarsest = 2 * MOST_CODE * finest;
  for (let step = finest; best === 0 && step < coarsest; step *= 1.3) {
    if (bytesOf(census, step) <= 2 * maxBytes && attempt(step) <= maxBytes) best = step;
  }
  return best;
}

interface Census {
  readonly below: Float64Array;
  readonly count: number;
  readonly largest: number;
}

const single = new Float32Array(1);
const word = new Uint32Array(single.buffer);

function countMagnitudes(values: Float32Array): Census {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const counts = new Uint32Array(KINDS);
  let largest = 0;
  for (let i = 0; i < bits.length; i++) {
    const magnitude = bits[i]! & 0x7fff_ffff;
    if (magnitude > largest) largest = magnitude;
    counts[magnitude >>> DROPPED]!++;
  }
  const below = new Float64Array(KINDS + 1);
  for (let i = 0; i < KINDS; i++) below[i + 1] = below[i]! + counts[i]!;
  word[0] = largest;
  return { below, count: values.length, largest: single[0]! };
}

/** Estimates how many values have at least this magnitude; values are taken as uniform within a bin. */
function atLeast({ below, count }: Census, magnitude: number): number {
  single[0] = magnitude;
  const kind = word[0]! >>> DROPPED;
  if (kind >= KINDS) return 0;
  const share = (word[0]! & ((1 << DROPPED) - 1)) / (1 << DROPPED);
  return count - below[kind]! - share * (below[kind + 1]! - below[kind]!);
}

/** Estimates the bytes of all values at a step from the histogram alone. */
const bytesOf = (census: Census, step: number): number =>
  bytesFor(census.count, (size) => atLeast(census, (size - 1 + DEAD_ZONE) * step));

/** Estimates the bytes of `count` values, of which `ofSize(s)` have a code of at least s. */
function bytesFor(count: number, ofSize: (size: number) => number): number {
  let [all, bits] = [count, 0];
  for (let size = 1; size <= COUNTED; size++) {
    const more = ofSize(size);
    bits += weigh(all) - weigh(more) - weigh(all - more);
    if (size === 1) bits += more;
    if (size === COUNTED) bits += LONG_BITS * more;
    all = more;
  }
  return bits / 8;
}

/** Returns n log2 n, 0 for n <= 0. Uses a series, since `Math.log2` differs between engines. */
function weigh(n: number): number {
  if (n <= 0) return 0;
  let [m, power] = [n, 0];
  for (; m >= 2; m /= 2) power++;
  for (; m < 1; m *= 2) power--;
  const t = (m - Math.SQRT2) / (m + Math.SQRT2);
  const s = t * t;
  const series = t * (1 + s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s / 9))));
  return n * (power + 0.5 + 2 * Math.LOG2E * series);
}

/** Returns the finest step whose estimated bytes are at most `maxBytes`. */
function finestWithin(census: Census, maxBytes: number): number {
  const finest = census.largest / MOST_CODE;
  if (bytesOf(census, finest) <= maxBytes) return finest;
  let [fine, coarse] = [finest, 1.7 * census.largest];
  for (let i = 0; i < HALVINGS; i++) {
    const middle = Math.sqrt(fine * coarse);
    if (bytesOf(census, middle) <= maxBytes) coarse = middle;
    else fine = middle;
  }
  return coarse;
}

/** Returns the ratio of actual to estimated bytes of a sample. */
function sampledRatio(values: Float32Array, census: Census, maxBytes: number): number {
  const count = Math.min(MAX_SAMPLES, Math.floor(values.length / (SAMPLE_SPACING * SAMPLE_LENGTH)));
  if (count < SAMPLE_SPACING) return 1;
  const sample = new Float32Array(count * SAMPLE_LENGTH);
  for (let i = 0; i < count; i++) {
    const from = Math.floor((i * values.length) / count);
    sample.set(values.subarray(from, from + SAMPLE_LENGTH), i * SAMPLE_LENGTH);
  }
  const codes = new Int8Array(sample.length);
  quantize(sample, finestWithin(census, TARGET_SHARE * maxBytes), codes);
  const bytes = writeCodes(codes, new Uint8Array(5 * codes.length), 0);
  const sizes = new Float64Array(MOST_CODE + 2);
  for (let i = 0; i < codes.length; i++) sizes[Math.abs(codes[i]!)]!++;
  for (let size = MOST_CODE; size >= 0; size--) sizes[size]! += sizes[size + 1]!;
  const expected = bytesFor(codes.length, (size) => sizes[size]!);
  return expected > 0 ? Math.max(LEAST_RATIO, (bytes - LEARNING) / expected) : 1;
}
