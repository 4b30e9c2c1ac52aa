/** Messages as WebSocket frames (RFC 6455, from a server: unmasked, in one piece), made once however many readers get them. */

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
