/**
 * Many values in a byte budget (docs/payload.md): one step size for all of them, integers with a dead zone around zero, and adaptive
 * range coding in which what came just before says what to expect (after DeepCABAC, arXiv 1905.08318).
 */
import { ok, type Result, refuse } from '../../base/result.ts';
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from './bfloat16.ts';
import { contexts, RangeDecoder, RangeEncoder } from './range-coder.ts';

/** Integers of values and what they stand for: magnitude 1 is the first level, each one more adds the step. */
export interface Coded {
  readonly codes: Int8Array;
  readonly first: number;
  readonly step: number;
}

const LEVEL_BYTES = 4;
export const MOST_CODE = 127;
/** Magnitudes up to here are counted up bit by bit; beyond, seven bits follow. */
const COUNTED = 15;
const LONG_BITS = 7;
/** A magnitude of less than this many steps becomes 0; at little more than a bit per value a wide dead zone loses least. */
const DEAD_ZONE = 0.6;
/** The running mean of magnitudes, in 1/256, over some 32 values; one magnitude counts for at most 7. */
const [MEAN_SHIFT, MOST_COUNTED] = [5, 7];
/** Where the mean is taken to say something else. */
const BOUNDS = [8, 16, 26, 38, 52, 77, 115, 179, 256, 384, 640];
const EXPECTED = Uint8Array.from(
  { length: 256 * MOST_COUNTED + 1 },
  (_, mean) => BOUNDS.filter((bound) => mean >= bound).length,
);
const KINDS = BOUNDS.length + 1;
/** Contexts: of zeros by kind, of ones by kind, and of each further count. */
const [ZEROS, ONES, COUNTS] = [0, KINDS, 2 * KINDS];

/** Most bytes that so many values can take, whatever they are. */
export const codedBytesAtMost = (count: number): number => LEVEL_BYTES + 4 + 5 * count;

/** Writes codes; bytes beyond the end of `out` are only counted. Returns how many bytes they take. */
function writeCodes(codes: Int8Array, out: Uint8Array, from: number): number {
  const coder = new RangeEncoder(out, from);
  const known = contexts(COUNTS + COUNTED);
  let mean = 0;
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    const size = code < 0 ? -code : code;
    const kind = EXPECTED[mean]!;
    mean += (Math.min(size, MOST_COUNTED) * 256 - mean) >> MEAN_SHIFT;
    if (size === 0) {
      coder.bit(known, ZEROS + kind, 0);
      continue;
    }
    coder.bit(known, ZEROS + kind, 1);
    coder.evenBit(code < 0 ? 1 : 0);
    coder.bit(known, ONES + kind, size > 1 ? 1 : 0);
    for (let count = 2; count <= size && count < COUNTED; count++) {
      coder.bit(known, COUNTS + count, size > count ? 1 : 0);
    }
    if (size < COUNTED) continue;
    for (let bit = LONG_BITS - 1; bit >= 0; bit--) coder.evenBit(((size - COUNTED) >>> bit) & 1);
  }
  return coder.end();
}

/** Fills the codes; undefined when one is beyond the largest. */
function readCodes(coder: RangeDecoder, codes: Int8Array): { largest: number } | undefined {
  const known = contexts(COUNTS + COUNTED);
  let mean = 0;
  let largest = 0;
  for (let i = 0; i < codes.length; i++) {
    const kind = EXPECTED[mean]!;
    let size = coder.bit(known, ZEROS + kind);
    if (size === 1) {
      const isNegative = coder.evenBit() === 1;
      if (coder.bit(known, ONES + kind) === 1) {
        size = 2;
        while (size < COUNTED && coder.bit(known, COUNTS + size) === 1) size++;
        if (size === COUNTED) {
          let more = 0;
          for (let bit = 0; bit < LONG_BITS; bit++) more = 2 * more + coder.evenBit();
          size += more;
          if (size > MOST_CODE) return undefined;
        }
      }
      if (size > largest) largest = size;
      codes[i] = isNegative ? -size : size;
    }
    mean += (Math.min(size, MOST_COUNTED) * 256 - mean) >> MEAN_SHIFT;
  }
  return { largest };
}

/** Integers of values for a step. */
function quantize(values: Float32Array, step: number, codes: Int8Array): void {
  const perStep = 1 / step;
  const shift = 1 - DEAD_ZONE;
  for (let i = 0; i < values.length; i++) {
    const scaled = values[i]! * perStep;
    const size = Math.min(MOST_CODE, Math.floor(Math.abs(scaled) + shift));
    codes[i] = scaled < 0 ? -size : size;
  }
}

/** The two levels that leave the least of these values, given their integers and the step that was asked for. */
function fitLevels(
  values: Float32Array,
  codes: Int8Array,
  asked: number,
): readonly [number, number] {
  let [ones, sum] = [0, 0];
  for (let i = 0; i < codes.length; i++) {
    if (codes[i] !== 1 && codes[i] !== -1) continue;
    ones++;
    sum += Math.abs(values[i]!);
  }
  let [weight, beyond] = [0, 0];
  const start = ones > 0 ? sum / ones : asked;
  for (let i = 0; i < codes.length; i++) {
    const more = Math.abs(codes[i]!) - 1;
    if (more < 1) continue;
    weight += more * more;
    beyond += more * (Math.abs(values[i]!) - start);
  }
  return [start, weight > 0 ? Math.max(0, beyond / weight) : 0];
}

/** Of every sixteenth stretch of this many values: enough to know nearly how many bytes a step takes. */
const SAMPLED = 256;

function sampleOf(values: Float32Array): Float32Array {
  if (values.length <= 256 * SAMPLED) return values;
  const parts = Math.floor(values.length / (16 * SAMPLED));
  const sample = new Float32Array(parts * SAMPLED);
  for (let i = 0; i < parts; i++) {
    const from = i * 16 * SAMPLED;
    sample.set(values.subarray(from, from + SAMPLED), i * SAMPLED);
  }
  return sample;
}

/** How often a sample is packed to find a step, and then all values; bytes that are full enough. */
const [SAMPLE_TRIES, TRIES, FULL] = [7, 5, 0.992];

/** Packs with a step and says how many bytes that takes. */
type Attempt = (step: number) => number;

/** The finest step found whose values take at most so many bytes; 0 where none does. */
function stepFor(values: Float32Array, maxBytes: number, attempt: Attempt): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]!));
  const finest = largest / MOST_CODE;
  if (levelBits(finest) === 0) return 0;
  const sample = sampleOf(values);
  const codes = new Int8Array(sample.length);
  const fits = (step: number): boolean => {
    quantize(sample, step, codes);
    return writeCodes(codes, NOTHING, 0) * values.length <= maxBytes * sample.length;
  };
  let [fine, coarse] = [finest, 1.6 * largest];
  if (fits(finest)) coarse = finest;
  for (let i = 0; i < SAMPLE_TRIES && coarse > fine; i++) {
    const middle = Math.sqrt(fine * coarse);
    if (fits(middle)) coarse = middle;
    else fine = middle;
  }
  return refine(coarse, { finest, values, maxBytes }, attempt);
}

/** From a step that is nearly right to one that is, by how bytes fell as the step before grew. */
function refine(
  guess: number,
  { finest, values, maxBytes }: { finest: number; values: Float32Array; maxBytes: number },
  attempt: Attempt,
): number {
  // at first: of few bits a value a small share more makes a step much too coarse
  let power = Math.max(0.3, Math.min(3, (8 * maxBytes) / values.length));
  let [step, best] = [guess, 0];
  let before = { step: 0, bytes: 0 };
  for (let i = 0; i < TRIES; i++) {
    const bytes = attempt(step);
    if (bytes <= maxBytes && (best === 0 || step < best)) best = step;
    if (bytes <= maxBytes && (bytes >= FULL * maxBytes || step === finest)) return step;
    const [grown, fell] = [step / before.step - 1, 1 - bytes / before.bytes];
    if (before.step > 0 && grown * fell > 0) power = Math.max(0.1, Math.min(3, grown / fell));
    before = { step, bytes };
    const miss = Math.min(1, bytes / (0.997 * maxBytes) - 1);
    step = Math.max(finest, step * Math.max(0.5, 1 + power * miss));
  }
  // coarser and coarser, until everything would be 0
  const coarsest = 2 * MOST_CODE * finest;
  for (; best === 0 && step < coarsest; step *= 1.3) if (attempt(step) <= maxBytes) best = step;
  return best;
}

const NOTHING = new Uint8Array(0);

/** Packs finite values into at most `maxBytes` from `at` on; all are 0 where nothing else fits. Returns what was sent and where it ends. */
export function writeCoded(
  values: Float32Array,
  out: Uint8Array,
  at: number,
  maxBytes: number,
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
  const asked = stepFor(values, maxBytes - LEVEL_BYTES, attempt);
  if (asked > 0 && asked !== last) attempt(asked);
  const isEmpty = asked === 0 || codes.every((code) => code === 0);
  const [first, step] = isEmpty ? [0, 0] : fitLevels(values, codes, asked);
  if (levelBits(first) === 0) {
    out.fill(0, at, at + maxBytes);
    return { codes: codes.fill(0), first: 0, step: 0, end: at + LEVEL_BYTES };
  }
  writeLevelBits(out, at, levelBits(first));
  writeLevelBits(out, at + 2, levelBits(step));
  const end = at + LEVEL_BYTES + bytes;
  return { codes, first: levelOf(levelBits(first)), step: levelOf(levelBits(step)), end };
}

/** What a stranger packed of so many values, and where it ends, or what is wrong with it. */
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
  const coder = new RangeDecoder(bytes, at + LEVEL_BYTES);
  const read = readCodes(coder, codes);
  if (read === undefined) return wrong('bad-value');
  const { at: end, isWhole } = coder.end();
  if (end > bytes.length) return wrong('truncated');
  if (!isWhole) return wrong('bad-padding');
  // a level that no value takes would give one update many spellings
  if (read.largest === 0 || (step !== 0 && read.largest === 1)) return wrong('bad-level');
  return ok({ codes, first: levelOf(first), step: levelOf(step), end });
}

/** What each code stands for, at code + MOST_CODE. */
export function levelsOf({ first, step }: Coded): Float64Array {
  const levels = new Float64Array(2 * MOST_CODE + 1);
  for (let size = 1; size <= MOST_CODE; size++) {
    const level = first + (size - 1) * step;
    levels[MOST_CODE + size] = level;
    levels[MOST_CODE - size] = -level;
  }
  return levels;
}
