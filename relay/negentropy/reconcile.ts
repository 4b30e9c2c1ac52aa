/** The answering side of Negentropy V1 (NIP-77): what a relay says to a message about a range of ids. Does not start a sync. */
import type { Work } from '../turns.ts';
import { encodeVarint, type IdList, type Item } from './id-list.ts';

const VERSION = 0x61;
const [SKIP, FINGERPRINT, ID_LIST] = [0, 1, 2];
const FINGERPRINT_BYTES = 16;
const ID_BYTES = 32;
/** A range of fewer than twice as many ids is listed; a longer one is split into so many. */
const BUCKETS = 16;
/** An answer that has grown to this leaves the rest to the next round. */
const ANSWER_BYTES = 60_000;
/** A longer message is not read; clients write up to 60,000 bytes. */
const MESSAGE_BYTES = 1 << 19;
/** Ranges looked at in one step, and what one costs: a search and a hash. */
const RANGES = 256;
const RANGE_UNITS = 4;

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
      if (value > Number.MAX_SAFE_INTEGER) throw new RangeError('number is too large');
      if (byte < 128) return value;
    }
  }

  /** Timestamps are written as the distance to the one before, plus one; 0 is the end of time. */
  bound(): Item {
    if (this.#timestamp === END.timestamp) throw new RangeError('message goes on after its end');
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

/** The bytes of a hex message; throws when it is none or too long. */
function readHex(message: unknown): Buffer {
  if (typeof message !== 'string') throw new RangeError('message is not hex');
  if (message.length > 2 * MESSAGE_BYTES) throw new RangeError('message is too long');
  const bytes = Buffer.from(message, 'hex');
  if (2 * bytes.length !== message.length) throw new RangeError('message is not hex');
  return bytes;
}

/** The answer to a hex message about the ids of a list, as work in steps; throws when the message makes no sense. */
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

/** Lists as many ids of the range as an answer holds, and says where it stopped. */
function list(ids: IdList, lower: number, upper: number, bound: Item, answer: Writer): number {
  const room = Math.max(1, Math.ceil((ANSWER_BYTES - answer.length) / ID_BYTES) + 1);
  const end = Math.min(upper, lower + room);
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
