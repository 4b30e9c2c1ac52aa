/** Messages of NIP-01 as they are read from clients, and as WebSocket frames (RFC 6455) built once for all readers. */
import type { Limits } from './limits.ts';

/** A message that is a list: its verb, what follows, and whether it was written without any backslash. */
export interface Message {
  readonly verb: unknown;
  readonly rest: readonly unknown[];
  readonly isPlain: boolean;
}

/** Why a message is not read; `id` is what a REQ or COUNT calls itself. */
export interface Unreadable {
  readonly reason: string;
  readonly id?: string;
  /** Whether reading it would have cost much. */
  readonly isHostile?: boolean;
}

/** Shorter messages are parsed unseen. */
const SHORT_BYTES = 16_384;
/** Most values and brackets of a longer one: some 30 ms of parsing. An event has some thousands at most. */
const MAX_TOKENS = 20_000;

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const OPENERS = new Set([0x5b, 0x7b]);

/** Where the string ends whose quote is before `from`: its closing quote, or the end of the bytes. */
function endOfString(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let slashes = 0;
    while (at - slashes > from && bytes[at - slashes - 1] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return bytes.length;
}

/** Whether JSON has more commas and opening brackets outside its strings than an honest message has. */
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
/** Enough for the head of any message. */
const HEAD_BYTES = 256;

/** The message, or why it is not one. */
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

/** One frame as the buffers it is written from, so that large ones are shared between readers instead of copied. */
export interface Frame {
  readonly parts: readonly Buffer[];
  readonly bytes: number;
  /** Whether it answers what the reader said, and is no event. */
  readonly isAnswer: boolean;
}

/** Larger JSON is not copied into a frame of its own per subscription id. */
const COPIED_BYTES = 4096;

const TEXT = 0x81;
const END = Buffer.from(']');

/** What goes before a payload of so many bytes. */
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

/** The frame of a message that is not an event. */
export const messageFrame = (message: readonly unknown[]): Frame =>
  frameOf([Buffer.from(JSON.stringify(message))], true);

/** The EVENT frames of one event, one per subscription id: readers that chose the same id share it. */
export class EventFrames {
  /** The event, serialized. */
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
