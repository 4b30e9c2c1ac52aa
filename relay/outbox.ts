/** Send buffer of one connection: frames of the same tick leave in one write, and callers can wait until it drains. */
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { Line, type SetTimer } from './faults/adversary.ts';
import type { Frame } from './messages.ts';

/** Stored events wait while more than this is unsent, so that live events are not delayed. */
const MAX_UNSENT_BYTES = 1 << 20;

/** Unread answers beyond which the connection's messages are not processed. */
const UNREAD_BYTES = 1 << 20;

/** Smaller buffers are copied into one write. */
const COPIED_BYTES = 4096;

/** Maximum bytes given to the socket at a time: a closing socket reports an error per pending write. */
const MAX_WRITE_BYTES = 1 << 18;

export class Outbox {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #line: Line | undefined;
  #waiting: (() => void)[] = [];
  /** Frames not written yet, from `#head` on. */
  #queue: Frame[] = [];
  #head = 0;
  #queuedBytes = 0;
  #isPlanned = false;
  #unread = 0;

  /** `socket` is the one under `ws`; writing to it directly avoids the copies that `ws` makes. */
  constructor(
    ws: WebSocket,
    socket: Duplex,
    bytesPerSecond: number | undefined,
    setTimer: SetTimer,
  ) {
    this.#ws = ws;
    this.#socket = socket;
    this.#line =
      bytesPerSecond === undefined
        ? undefined
        : new Line(bytesPerSecond, (frame) => this.#write(frame), setTimer);
  }

  /** Bytes that the reader has not received yet. */
  get unsent(): number {
    return this.#socket.writableLength + this.#queuedBytes + (this.#line?.bytes ?? 0);
  }

  /** Whether its messages should not be processed until `caughtUp`. */
  get isUnread(): boolean {
    return this.#isOpen && this.#unread > UNREAD_BYTES;
  }

  send(frame: Frame): void {
    if (frame.isAnswer) this.#unread += frame.bytes;
    if (this.#line) this.#line.push(frame);
    else this.#write(frame);
  }

  /** Resolves when the buffer is below its limit, the reader is gone, or the data is no longer wanted (see `wake`). */
  async drained(isWanted: () => boolean): Promise<void> {
    while (this.#isFull && isWanted()) await this.#change();
  }

  /** Resolves when most answers have been read, or the reader is gone. */
  async caughtUp(): Promise<void> {
    while (this.isUnread) await this.#change();
  }

  wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  close(): void {
    this.#line?.close();
    this.#queue = [];
    this.#head = 0;
    this.#queuedBytes = 0;
    this.wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  get #isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  get #isFull(): boolean {
    return this.#isOpen && this.unsent > MAX_UNSENT_BYTES;
  }

  #write(frame: Frame): void {
    if (!this.#isOpen) return;
    this.#queue.push(frame);
    this.#queuedBytes += frame.bytes;
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#give();
    });
  }

  /** Writes all queued frames; call it before `ws` itself sends anything. */
  flush(): void {
    this.#give(Number.POSITIVE_INFINITY);
  }

  /** Writes to the socket as much as it accepts, and more once that is written. */
  #give(most = MAX_WRITE_BYTES): void {
    if (!this.#isOpen) return;
    const parts: Buffer[] = [];
    let [bytes, answers] = [this.#socket.writableLength, 0];
    for (; bytes < most && this.#head < this.#queue.length; this.#head++) {
      const frame = this.#queue[this.#head]!;
      parts.push(...frame.parts);
      bytes += frame.bytes;
      this.#queuedBytes -= frame.bytes;
      if (frame.isAnswer) answers += frame.bytes;
    }
    if (2 * this.#head > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    if (parts.length > 0) this.#writeParts(mergeSmall(parts), answers);
  }

  #writeParts(parts: readonly Buffer[], answers: number): void {
    const last = parts.length - 1;
    this.#socket.cork();
    for (let i = 0; i < last; i++) this.#socket.write(parts[i]!);
    this.#socket.write(parts[last]!, () => {
      this.#unread -= answers;
      this.#give();
      if (this.#waiting.length > 0 && !(this.#isFull && this.isUnread)) this.wake();
    });
    this.#socket.uncork();
  }
}

/** Returns the same bytes in fewer buffers: adjacent small ones are merged. */
function mergeSmall(parts: readonly Buffer[]): Buffer[] {
  const merged: Buffer[] = [];
  let small: Buffer[] = [];
  for (const part of parts) {
    if (part.length < COPIED_BYTES) {
      small.push(part);
      continue;
    }
    if (small.length > 0) merged.push(Buffer.concat(small));
    small = [];
    merged.push(part);
  }
  if (small.length > 0) merged.push(Buffer.concat(small));
  return merged;
}
