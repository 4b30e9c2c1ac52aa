/** The answering side of Negentropy V1 (NIP-77): what a relay says to a message about a range of ids. Does not start a sync. */
import { encodeVarint, type IdList, type Item } from './id-list.ts';

const VERSION = 0x61;
const [SKIP, FINGERPRINT, ID_LIST] = [0, 1, 2];
const FINGERPRINT_BYTES = 16;
const ID_BYTES = 32;
/** A range of fewer than twice as many ids is listed; a longer one is split into so many. */
const BUCKETS = 16;
/** An answer that has grown to this leaves the rest to the next round. */
const ANSWER_BYTES = 60_000;

const END: Item = { timestamp: Number.MAX_VALUE, id: new Uint8Array() };

/** Reads a message; throws a `RangeError` where it ends too early. */
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
      if (byte < 128) return value;
    }
  }

  /** Timestamps are written as the distance to the one before, plus one; 0 is the end of time. */
  bound(): Item {
    const step = this.varint();
    this.#timestamp = step === 0 ? Number.MAX_VALUE : this.#timestamp + step - 1;
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

/** The answer to a hex message about the ids of a list; throws when the message makes no sense. */
export function reconcile(ids: IdList, message: string): string {
  const query = new Reader(Buffer.from(message, 'hex'));
  const answer = new Writer();
  answer.bytes(Uint8Array.of(VERSION));
  if (query.bytes(1)[0] !== VERSION) return answer.hex();
  let lower = 0;
  let skipped: Item | undefined;
  while (!query.done) {
    const bound = query.bound();
    const mode = query.varint();
    const upper = ids.lowerBound(lower, bound);
    const agreed = mode === SKIP || (mode === FINGERPRINT && agrees(ids, lower, upper, query));
    if (mode === ID_LIST) query.bytes(query.varint() * ID_BYTES);
    else if (mode !== SKIP && mode !== FINGERPRINT) throw new RangeError(`unknown mode ${mode}`);
    if (!agreed) {
      if (skipped) answer.range(skipped, SKIP!);
      if (mode === ID_LIST) list(ids, lower, upper, bound, answer);
      else split(ids, lower, upper, bound, answer);
    }
    skipped = agreed ? bound : undefined;
    lower = upper;
    if (answer.length > ANSWER_BYTES && bound.timestamp !== END.timestamp) {
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

function list(ids: IdList, lower: number, upper: number, bound: Item, answer: Writer): void {
  answer.range(bound, ID_LIST!);
  answer.varint(upper - lower);
  for (let i = lower; i < upper; i++) answer.bytes(ids.at(i).id);
}

function split(ids: IdList, lower: number, upper: number, bound: Item, answer: Writer): void {
  const count = upper - lower;
  if (count < 2 * BUCKETS) {
    list(ids, lower, upper, bound, answer);
    return;
  }
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const from = lower + Math.floor((count * bucket) / BUCKETS);
    const to = lower + Math.floor((count * (bucket + 1)) / BUCKETS);
    answer.range(to === upper ? bound : ids.at(to), FINGERPRINT!);
    answer.bytes(ids.fingerprint(from, to));
  }
}
