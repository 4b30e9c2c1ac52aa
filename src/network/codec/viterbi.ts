/** The search for the bits of a trellis code (`assembly/viterbi.ts`), and its memory. */
import { fromBase64 } from '../../base/bytes.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { codebook, STATES, stepLength } from './trellis-book.ts';
import { VITERBI_WASM } from './viterbi-wasm.ts';

/** Maximum bits of a chunk: 2 bits a value. */
const MOST_BITS = 2 * CHUNK_LENGTH;

type Search = (
  values: number,
  count: number,
  bits: number,
  states: number,
  pairs: number,
  energies: number,
  metrics: number,
  decisions: number,
  out: number,
) => void;

interface Viterbi {
  readonly memory: WebAssembly.Memory;
  readonly search: Search;
  /** Most values of a step that the codebook in memory has. */
  length: number;
}

const WORD = 4;
const PAGE = 65_536;
/** Addresses of the memory; the codebook comes last, since it grows. */
const VALUES = 1024;
const OUT = VALUES + 2 * CHUNK_LENGTH + 64;
const METRICS = OUT + MOST_BITS / 8 + 64;
const DECISIONS = METRICS + 2 * WORD * STATES;
const ENERGIES = DECISIONS + (MOST_BITS * STATES) / 16;

let viterbi: Viterbi | undefined;

/** Returns the bytes of the `bits` bits whose codewords fit the values best. Valid until the next call. */
export function searchBits(values: Int16Array, bits: number): Uint8Array {
  viterbi ??= start();
  const most = stepLength(values.length, bits);
  if (most > viterbi.length) load(viterbi, most);
  const { memory, search, length } = viterbi;
  new Int16Array(memory.buffer, VALUES).set(values);
  const pairs = pairsAt(length);
  search(VALUES, values.length, bits, STATES, pairs, ENERGIES, METRICS, DECISIONS, OUT);
  return new Uint8Array(memory.buffer, OUT, Math.ceil(bits / 8));
}

function start(): Viterbi {
  const module = new WebAssembly.Module(Uint8Array.from(fromBase64(VITERBI_WASM)!));
  const exported = new WebAssembly.Instance(module).exports;
  return {
    memory: exported.memory as WebAssembly.Memory,
    search: exported.search as Search,
    length: 0,
  };
}

const pairsAt = (length: number): number => ENERGIES + (length + 1) * WORD * STATES;

/** Writes the codebook of steps of up to `length` values, as pairs, and half its energies. */
function load(into: Viterbi, length: number): void {
  const { memory } = into;
  const pairs = pairsAt(length);
  const end = pairs + Math.ceil(length / 2) * WORD * STATES;
  const missing = Math.ceil(end / PAGE) - memory.buffer.byteLength / PAGE;
  if (missing > 0) memory.grow(missing);
  const book = codebook(length);
  const words = new Int16Array(memory.buffer, pairs);
  const halves = new Int32Array(memory.buffer, ENERGIES);
  for (let state = 0; state < STATES; state++) {
    let energy = 0;
    for (let i = 0; i < length; i++) {
      halves[i * STATES + state] = energy >> 1;
      const value = book[state * length + i]!;
      words[2 * ((i >> 1) * STATES + state) + (i & 1)] = value;
      energy += value * value;
    }
    halves[length * STATES + state] = energy >> 1;
  }
  into.length = length;
}
