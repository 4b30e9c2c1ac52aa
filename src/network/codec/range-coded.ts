/**
 * Range coding (entropy coding) of many values into a byte budget (docs/payload.md): one step size for all of them, integers with a dead zone around zero, and adaptive
 * range coding in which what came just before says what to expect (after DeepCABAC, arXiv 1905.08318).
 */
import { ok, type Result, refuse } from '../../base/errors.ts';
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from './bfloat16.ts';
import { MOST_CODE, readCodes, writeCodes } from './range-coder.ts';
import { quantize, stepFor } from './range-step.ts';

/** Integers of values and what they stand for: magnitude 1 is the first level, each one more adds the step. */
export interface Coded {
  readonly codes: Int8Array;
  readonly first: number;
  readonly step: number;
}

const LEVEL_BYTES = 4;
const MOST_LENGTHENED = 4;
/** Most bytes that so many values can take, whatever they are. */
export const codedBytesAtMost = (count: number): number => LEVEL_BYTES + 4 + 5 * count;

/** The two levels that leave the least of these values, given their integers and the step that was asked for. */
function fitLevels(
  values: Float32Array,
  codes: Int8Array,
  asked: number,
): readonly [number, number] {
  const sums = new Float64Array(MOST_CODE + 1);
  const counts = new Uint32Array(MOST_CODE + 1);
  for (let i = 0; i < codes.length; i++) {
    const size = Math.abs(codes[i]!);
    sums[size]! += Math.abs(values[i]!);
    counts[size]!++;
  }
  const start = counts[1]! > 0 ? sums[1]! / counts[1]! : asked;
  let [weight, beyond] = [0, 0];
  for (let size = 2; size <= MOST_CODE; size++) {
    weight += (size - 1) * (size - 1) * counts[size]!;
    beyond += (size - 1) * (sums[size]! - start * counts[size]!);
  }
  return [start, weight > 0 ? Math.max(0, beyond / weight) : 0];
}

/** Where values go, and how. */
interface Room {
  readonly at: number;
  readonly maxBytes: number;
  /** Levels are longer by what values that round to 0 leave out, so that what is read has on average the values' own length along them. */
  readonly isLengthened?: boolean;
}

/**
 * What levels are multiplied with so that codes have the values' own product with the values (EDEN, arXiv 2108.08842); no more than four
 * times, since noise grows with it.
 */
function lengthening(
  values: Float32Array,
  codes: Int8Array,
  [first, step]: readonly [number, number],
): number {
  let [own, along] = [0, 0];
  for (let i = 0; i < codes.length; i++) {
    const value = values[i]!;
    const size = Math.abs(codes[i]!);
    own += value * value;
    if (size > 0) along += Math.abs(value) * (first + (size - 1) * step);
  }
  return Math.min(MOST_LENGTHENED, own / along);
}

/** Packs finite values into at most `maxBytes` from `at` on; all are 0 where nothing else fits. Returns what was sent and where it ends. */
export function writeCoded(
  values: Float32Array,
  out: Uint8Array,
  { at, maxBytes, isLengthened = false }: Room,
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
  const fitted = isEmpty ? ([0, 0] as const) : fitLevels(values, codes, asked);
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
  const { largest, end, isWhole } = readCodes(bytes, at + LEVEL_BYTES, codes);
  if (largest > MOST_CODE) return wrong('bad-value');
  if (end > bytes.length) return wrong('truncated');
  if (!isWhole) return wrong('bad-padding');
  // a level that no value takes would give one update many spellings
  if (largest === 0 || (step !== 0 && largest === 1)) return wrong('bad-level');
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
