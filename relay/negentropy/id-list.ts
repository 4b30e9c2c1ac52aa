/** Ids in order of time, and the fingerprints of their ranges, as Negentropy V1 (NIP-77) wants them. Does not change once built. */
import { createHash } from 'node:crypto';
import { finish, type Work } from '../turns.ts';

export interface Item {
  readonly timestamp: number;
  readonly id: Uint8Array;
}

/** What an item is made of. */
interface Dated {
  readonly id: string;
  readonly created_at: number;
}

const ID_BYTES = 32;
const FINGERPRINT_BYTES = 16;
/** Sums of ids are 256 bits, in words of 32, least significant first. */
const WORDS = 8;
const WORD = 2 ** 32;
/** Entries sorted or read in one step of building. */
const STEP = 2048;

const compare = (a: Item, b: Item): number =>
  a.timestamp - b.timestamp || Buffer.compare(a.id, b.id);

const compareDated = (a: Dated, b: Dated): number =>
  a.created_at - b.created_at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** A number in base 128, most significant digit first; all but the last digit carry the high bit. */
export function encodeVarint(value: number): Uint8Array {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is no length`);
  const digits = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    digits.unshift((rest % 128) | 128);
  }
  return Uint8Array.from(digits);
}

/** Sorts in steps: runs first, then two neighbours at a time into one. */
function* sortInSteps(entries: readonly Dated[]): Work<readonly Dated[]> {
  let runs: Dated[][] = [];
  for (let i = 0; i < entries.length; i += STEP) {
    runs.push(entries.slice(i, i + STEP).sort(compareDated));
    yield STEP;
  }
  while (runs.length > 1) {
    const merged: Dated[][] = [];
    for (let i = 0; i < runs.length; i += 2) {
      merged.push(i + 1 < runs.length ? yield* merge(runs[i]!, runs[i + 1]!) : runs[i]!);
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

function* merge(a: readonly Dated[], b: readonly Dated[]): Work<Dated[]> {
  const all: Dated[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const takesA = j >= b.length || (i < a.length && compareDated(a[i]!, b[j]!) <= 0);
    all.push(takesA ? a[i++]! : b[j++]!);
    if (all.length % STEP === 0) yield STEP / 8;
  }
  return all;
}

export class IdList {
  readonly size: number;
  readonly #times: Float64Array;
  readonly #ids: Buffer;
  /** Before each item the sum of all ids before it, so that the sum of a range is one subtraction. */
  readonly #sums: Uint32Array;

  private constructor(size: number) {
    this.size = size;
    this.#times = new Float64Array(size);
    this.#ids = Buffer.alloc(size * ID_BYTES);
    this.#sums = new Uint32Array((size + 1) * WORDS);
  }

  static of(entries: Iterable<Dated>): IdList {
    return finish(IdList.build(entries));
  }

  static *build(entries: Iterable<Dated>): Work<IdList> {
    const sorted = yield* sortInSteps([...entries]);
    const list = new IdList(sorted.length);
    for (const [i, entry] of sorted.entries()) {
      list.#set(i, entry);
      if (i % STEP === STEP - 1) yield STEP;
    }
    return list;
  }

  at(index: number): Item {
    const from = index * ID_BYTES;
    return { timestamp: this.#times[index]!, id: this.#ids.subarray(from, from + ID_BYTES) };
  }

  /** The first index from `from` on that is not before the bound. */
  lowerBound(from: number, bound: Item): number {
    let [low, high] = [from, this.size];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compare(this.at(middle), bound) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Of the sum of the ids, little-endian, and their count. */
  fingerprint(from: number, to: number): Uint8Array {
    const sum = Buffer.alloc(ID_BYTES);
    let borrow = 0;
    for (let word = 0; word < WORDS; word++) {
      const difference = this.#sums[to * WORDS + word]! - this.#sums[from * WORDS + word]! - borrow;
      borrow = difference < 0 ? 1 : 0;
      sum.writeUInt32LE(difference + borrow * WORD, word * 4);
    }
    const hash = createHash('sha256')
      .update(sum)
      .update(encodeVarint(to - from));
    return hash.digest().subarray(0, FINGERPRINT_BYTES);
  }

  #set(index: number, { id, created_at }: Dated): void {
    this.#times[index] = created_at;
    this.#ids.write(id, index * ID_BYTES, 'hex');
    let carry = 0;
    for (let word = 0; word < WORDS; word++) {
      const added = this.#ids.readUInt32LE(index * ID_BYTES + word * 4);
      const sum = this.#sums[index * WORDS + word]! + added + carry;
      carry = sum >= WORD ? 1 : 0;
      this.#sums[(index + 1) * WORDS + word] = sum - carry * WORD;
    }
  }
}
