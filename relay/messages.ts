/** Parses messages of clients (NIP-01), and builds WebSocket frames (RFC 6455) once for all readers. */
import type { Limits } from './limits.ts';

/** A parsed message: its verb, the rest, and whether its JSON had no backslash. */
export interface Message {
  readonly verb: unknown;
  readonly rest: readonly unknown[];
  readonly isPlain: boolean;
}

/** Why a message was rejected; `id` is the subscription id of a REQ or COUNT. */
export interface Unreadable {
  readonly reason: string;
  readonly id?: string;
  /** Whether parsing it would have been expensive. */
  readonly isHostile?: boolean;
}

/** Shorter messages are parsed without counting their tokens first. */
const SHORT_BYTES = 16_384;
/** Maximum values and brackets of a longer message: about 30 ms of parsing. Events have a few thousand at most. */
const MAX_TOKENS = 20_000;

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const OPENERS = new Set([0x5b, 0x7b]);

/** Returns the end of the string that begins before `from`: its closing quote, or the end of the bytes. */
function endOfString(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let slashes = 0;
    while (at - slashes > from && bytes[at - slashes - 1] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return bytes.length;
}

/** Reports whether JSON has more commas and opening brackets outside strings than an honest message has. */
export function isIntricate(bytes: Buffer): boolean {
  if (bytes.length < SHORT_BYTES) return false;
  let tokens = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) at = endOfString(bytes, at + 1);
    else if ((byte === COMMA || OPENERS.has(byte)) && ++tokens > MAX_TOKENS) return true;
  }
  return false;
}

const EVENT_HEAD = /^\s*\[\s*"EVENT"/;
const QUERY_HEAD = /^\s*\[\s*"(?:REQ|COUNT)"\s*,\s*"([^"\\]{1,64})"/;
/** Enough bytes to contain the head of any message. */
const HEAD_BYTES = 256;

/** Returns the message, or why it was rejected. */
export function readMessage(bytes: Buffer, { maxQueryBytes }: Limits): Message | Unreadable {
  const head = bytes.toString('utf8', 0, HEAD_BYTES);
  const id = QUERY_HEAD.exec(head)?.[1];
  const named = { isHostile: true, ...(id === undefined ? {} : { id }) };
  if (bytes.length > maxQueryBytes && !EVENT_HEAD.test(head)) {
    return { reason: `invalid: message is longer than ${maxQueryBytes} bytes`, ...named };
  }
  if (isIntricate(bytes)) return { reason: 'invalid: message has too many parts', ...named };
  const text = bytes.toString();
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return { reason: 'invalid: message is not JSON' };
  }
  if (!Array.isArray(message)) return { reason: 'invalid: message is not a list' };
  const [verb, ...rest] = message as unknown[];
  return { verb, rest, isPlain: !text.includes('\\') };
}

/** One frame as buffers, so that large ones are shared between readers instead of copied. */
export interface Frame {
  readonly parts: readonly Buffer[];
  readonly bytes: number;
  /** Whether it is an answer to the client rather than an event. */
  readonly isAnswer: boolean;
}

/** Larger JSON is shared instead of copied into one frame per subscription id. */
const COPIED_BYTES = 4096;

const TEXT = 0x81;
const END = Buffer.from(']');

/** Returns the frame header of a payload of `bytes` bytes. */
function headOf(bytes: number): Buffer {
  if (bytes < 126) return Buffer.from([TEXT, bytes]);
  const head = Buffer.alloc(bytes < 65_536 ? 4 : 10);
  head[0] = TEXT;
  head[1] = bytes < 65_536 ? 126 : 127;
  if (bytes < 65_536) head.writeUInt16BE(bytes, 2);
  else head.writeBigUInt64BE(BigInt(bytes), 2);
  return head;
}

function frameOf(payload: readonly Buffer[], isAnswer: boolean): Frame {
  const length = payload.reduce((sum, part) => sum + part.length, 0);
  const parts = [headOf(length), ...payload];
  const bytes = parts[0]!.length + length;
  return { parts: bytes < COPIED_BYTES ? [Buffer.concat(parts)] : parts, bytes, isAnswer };
}

/** Returns the frame of a message other than EVENT. */
export const messageFrame = (message: readonly unknown[]): Frame =>
  frameOf([Buffer.from(JSON.stringify(message))], true);

/** The EVENT frames of one event, one per subscription id; readers with the same id share it. */
export class EventFrames {
  /** The serialized event. */
  readonly json: Buffer;
  readonly #made = new Map<string, Frame>();

  constructor(json: Buffer) {
    this.json = json;
  }

  for(subscription: string): Frame {
    const known = this.#made.get(subscription);
    if (known) return known;
    const start = Buffer.from(`["EVENT",${JSON.stringify(subscription)},`);
    const frame = frameOf([start, this.json, END], false);
    this.#made.set(subscription, frame);
    return frame;
  }
}
