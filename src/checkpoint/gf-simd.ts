/**
 * Products in GF(2⁸) added sixteen bytes at a time, for parity and what it restores: a WebAssembly function of some 150 bytes, put together here from its
 * instructions, so that there is nothing to build. A product is the sum of two look-ups in tables of sixteen, one for each half of a byte.
 *
 * Instructions: https://webassembly.github.io/spec/core/appendix/index-instructions.html; the method: J. S. Plank et al., "Screaming Fast Galois
 * Field Arithmetic Using Intel SIMD Instructions" (FAST 2013).
 */
import { multiply } from '../network/attachments/erasure.ts';

/** Adds `factor` times the source to the target, for as many bytes as were said; addresses are in its memory. */
export interface GaloisAdd {
  readonly memory: Uint8Array;
  /** `table` is of `galoisTable`; `end` is where the source ends, a multiple of 32 bytes behind its begin. */
  add(target: number, source: number, end: number, table: number): void;
}

/** The products of a factor with both halves of a byte: 32 bytes. */
export const galoisTable = (factor: number): Uint8Array =>
  Uint8Array.from({ length: 32 }, (_, i) => multiply(factor, i < 16 ? i : (i - 16) << 4));

const PAGE_BYTES = 65_536;
const [I32, V128, VOID] = [0x7f, 0x7b, 0x40];
const [TARGET, SOURCE, END, TABLE, LOW, HIGH, VALUE] = [0, 1, 2, 3, 4, 5, 6];

const get = (local: number): number[] => [0x20, local];
const set = (local: number): number[] => [0x21, local];
const tee = (local: number): number[] => [0x22, local];
const i32 = (value: number): number[] => [0x41, value];
const simd = (code: number, ...more: number[]): number[] => [0xfd, ...leb(code), ...more];
/** Align, offset. */
const load = (offset: number): number[] => simd(0, 4, offset);
const store = (offset: number): number[] => simd(11, 4, offset);
const splat = simd(15);
const swizzle = simd(14);
const and = simd(78);
const xor = simd(81);
const shiftRight = simd(109);
const add = [0x6a];
const isBelow = [0x49];

/** Unsigned LEB128. */
function leb(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...leb(value >> 7)];
}

/** Sixteen bytes at this offset: both look-ups, added to the target. */
const step = (offset: number): number[] => [
  ...get(TARGET),
  ...get(TARGET),
  ...load(offset),
  ...get(LOW),
  ...get(SOURCE),
  ...load(offset),
  ...tee(VALUE),
  ...i32(15),
  ...splat,
  ...and,
  ...swizzle,
  ...xor,
  ...get(HIGH),
  ...get(VALUE),
  ...i32(4),
  ...shiftRight,
  ...swizzle,
  ...xor,
  ...store(offset),
];
const forward = (local: number): number[] => [...get(local), ...i32(32), ...add, ...set(local)];

const body = [
  // seven locals: four are arguments, three vectors follow
  1,
  3,
  V128,
  ...get(TABLE),
  ...load(0),
  ...set(LOW),
  ...get(TABLE),
  ...load(16),
  ...set(HIGH),
  0x03,
  VOID,
  ...step(0),
  ...step(16),
  ...forward(TARGET),
  ...forward(SOURCE),
  ...get(SOURCE),
  ...get(END),
  ...isBelow,
  0x0d,
  0,
  0x0b,
  0x0b,
];
const text = (word: string): number[] => [word.length, ...new TextEncoder().encode(word)];
const section = (id: number, content: number[]): number[] => [
  id,
  ...leb(content.length),
  ...content,
];
const module = Uint8Array.from([
  0,
  0x61,
  0x73,
  0x6d,
  1,
  0,
  0,
  0,
  ...section(1, [1, 0x60, 4, I32, I32, I32, I32, 0]),
  ...section(2, [1, ...text('e'), ...text('m'), 2, 0, 1]),
  ...section(3, [1, 0]),
  ...section(7, [1, ...text('a'), 0, 0]),
  ...section(10, [1, ...leb(body.length), ...body]),
]);

/** With room for so many bytes; undefined where the machine has no vectors in WebAssembly. */
export function createGaloisAdd(bytes: number): GaloisAdd | undefined {
  if (!WebAssembly.validate(module)) return undefined;
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) });
  const instance = new WebAssembly.Instance(new WebAssembly.Module(module), { e: { m: memory } });
  return {
    memory: new Uint8Array(memory.buffer),
    add: instance.exports.a as GaloisAdd['add'],
  };
}
