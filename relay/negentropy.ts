/**
 * Negentropy V1 (NIP-77): an immutable sorted list of ids with range fingerprints, and the relay's answers over it.
 */
import { createHash } from 'node:crypto';
import { finish, type Work } from './turns.ts';

export interface Item {
  readonly timestamp: number;
  readonly id: Uint8Array;
}

/** Fields of an item. */
interface Dated {
  readonly id: string;
  readonly created_at: number;
}

const ID_BYTES = 32;
const FINGERPRINT_BYTES = 16;
/** Sums of ids have 256 bits, in 32-bit words, least significant first. */
const WORDS = 8;
const WORD = 2 ** 32;
/** Entries sorted or read per step of building. */
const STEP = 2048;

const compare = (a: Item, b: Item): number =>
  a.timestamp - b.timestamp || Buffer.compare(a.id, b.id);

const compareDated = (a: Dated, b: Dated): number =>
  a.created_at - b.created_at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** Encodes a number in base 128, most significant digit first; all but the last digit have the high bit set. */
function encodeVarint(value: number): Uint8Array {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is not a length`);
  const digits = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    digits.unshift((rest % 128) | 128);
  }
  return Uint8Array.from(digits);
}

/** Sorts in steps: first runs, then merges neighbours pairwise. */
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

/** Event ids ordered by time, for set reconciliation (NIP-77). */
export class IdList {
  readonly size: number;
  readonly #times: Float64Array;
  readonly #ids: Buffer;
  /** Prefix sums of ids: the sum of a range is one subtraction. */
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

  /** Returns the first index from `from` on that is not before the bound. */
  lowerBound(from: number, bound: Item): number {
    let [low, high] = [from, this.size];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compare(this.at(middle), bound) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Returns the fingerprint of a range: a hash of the sum of its ids (little-endian) and their count. */
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

const VERSION = 0x61;
const [SKIP, FINGERPRINT, ID_LIST] = [0, 1, 2];
/** Number of parts into which a range is split; a range of fewer than twice as many ids is listed. */
const BUCKETS = 16;
/** Once an answer has this size, the rest is left to the next round. */
const ANSWER_BYTES = 60_000;
/** Maximum message size; clients write up to 60,000 bytes. */
const MESSAGE_BYTES = 1 << 19;
/** Ranges handled per step, and the cost of one: a search and a hash. */
const RANGES = 256;
const RANGE_UNITS = 4;

const END: Item = { timestamp: Number.MAX_VALUE, id: new Uint8Array() };

/** Reads a message; throws a RangeError if it ends too early. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;
  #timestamp = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  bytes(count: number): Uint8Array {
    if (this.#at + count > this.#bytes.length) throw new RangeError('message ends early');
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  varint(): number {
    let value = 0;
    for (;;) {
      const byte = this.bytes(1)[0]!;
      value = value * 128 + (byte & 127);
      if (value > Number.MAX_SAFE_INTEGER) throw new RangeError('number is too large');
      if (byte < 128) return value;
    }
  }

  /** A timestamp is coded as the difference to the previous one plus 1; 0 means infinity. */
  bound(): Item {
    if (this.#timestamp === END.timestamp) throw new RangeError('message continues after its end');
    const step = this.varint();
    this.#timestamp = step === 0 ? END.timestamp : this.#timestamp + step - 1;
    if (step > 0 && this.#timestamp > Number.MAX_SAFE_INTEGER) {
      throw new RangeError('time is too late');
    }
    const length = this.varint();
    if (length > ID_BYTES) throw new RangeError('bound is longer than an id');
    return { timestamp: this.#timestamp, id: this.bytes(length) };
  }
}

class Writer {
  readonly #parts: Uint8Array[] = [];
  #length = 0;
  #timestamp = 0;

  get length(): number {
    return this.#length;
  }

  bytes(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.#length += bytes.length;
  }

  varint(value: number): void {
    this.bytes(encodeVarint(value));
  }

  range(bound: Item, mode: number): void {
    if (bound.timestamp === Number.MAX_VALUE) this.varint(0);
    else this.varint(bound.timestamp - this.#timestamp + 1);
    this.#timestamp = bound.timestamp;
    this.varint(bound.id.length);
    this.bytes(bound.id);
    this.varint(mode);
  }

  hex(): string {
    return Buffer.concat(this.#parts).toString('hex');
  }
}

/** Decodes a hex message; throws if it is not hex, or too long. */
function readHex(message: unknown): Buffer {
  if (typeof message !== 'string') throw new RangeError('message is not hex');
  if (message.length > 2 * MESSAGE_BYTES) throw new RangeError('message is too long');
  const bytes = Buffer.from(message, 'hex');
  if (2 * bytes.length !== message.length) throw new RangeError('message is not hex');
  return bytes;
}

/** Returns the answer to a hex message over a list, as work in steps; throws if the message is malformed. */
export function* reconcile(ids: IdList, message: unknown): Work<string> {
  const query = new Reader(readHex(message));
  const answer = new Writer();
  answer.bytes(Uint8Array.of(VERSION));
  if (query.bytes(1)[0] !== VERSION) return answer.hex();
  let lower = 0;
  let skipped: Item | undefined;
  for (let count = 1; !query.done; count++) {
    if (count % RANGES === 0) yield RANGES * RANGE_UNITS;
    const bound = query.bound();
    const mode = query.varint();
    const upper = ids.lowerBound(lower, bound);
    let end = upper;
    const agreed = mode === SKIP || (mode === FINGERPRINT && agrees(ids, lower, upper, query));
    if (mode === ID_LIST) query.bytes(query.varint() * ID_BYTES);
    else if (mode !== SKIP && mode !== FINGERPRINT) throw new RangeError(`unknown mode ${mode}`);
    if (!agreed) {
      if (skipped) answer.range(skipped, SKIP!);
      const say = mode === ID_LIST ? list : split;
      end = say(ids, lower, upper, bound, answer);
    }
    skipped = agreed ? bound : undefined;
    lower = end;
    if (answer.length > ANSWER_BYTES && (bound.timestamp !== END.timestamp || end < upper)) {
      answer.range(END, FINGERPRINT!);
      answer.bytes(ids.fingerprint(lower, ids.size));
      break;
    }
  }
  return answer.hex();
}

function agrees(ids: IdList, lower: number, upper: number, query: Reader) {
  const theirs = Buffer.from(query.bytes(FINGERPRINT_BYTES));
  return theirs.equals(ids.fingerprint(lower, upper));
}

/** Lists the ids of a range until the answer is full; returns the index where it stopped. */
function list(ids: IdList, lower: number, upper: number, bound: Item, answer: Writer): number {
  const budget = Math.max(1, Math.ceil((ANSWER_BYTES - answer.length) / ID_BYTES) + 1);
  const end = Math.min(upper, lower + budget);
  answer.range(end === upper ? bound : ids.at(end), ID_LIST!);
  answer.varint(end - lower);
  for (let i = lower; i < end; i++) answer.bytes(ids.at(i).id);
  return end;
}

function split(ids: IdList, lower: number, upper: number, bound: Item, answer: Writer): number {
  const count = upper - lower;
  if (count < 2 * BUCKETS) return list(ids, lower, upper, bound, answer);
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const from = lower + Math.floor((count * bucket) / BUCKETS);
    const to = lower + Math.floor((count * (bucket + 1)) / BUCKETS);
    answer.range(to === upper ? bound : ids.at(to), FINGERPRINT!);
    answer.bytes(ids.fingerprint(from, to));
  }
  return upper;
}
