/** What one reader is sent: frames of the same moment leave together, and whoever has more can wait for room. */
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { Line } from './faults/line.ts';
import type { Frame } from './frames.ts';

/** Stored events wait while more than this is unsent, so that live ones are not stuck behind them. */
const ROOM_BYTES = 1 << 20;

/** A reader that leaves more than this of our answers unread says more than it listens. */
const UNREAD_BYTES = 1 << 20;

export class Outbox {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #line: Line | undefined;
  #waiting: (() => void)[] = [];
  #isCorked = false;
  #unread = 0;

  /** The socket is the one under `ws`: what is written to it goes past the copies `ws` would make. */
  constructor(ws: WebSocket, socket: Duplex, bytesPerSecond: number | undefined) {
    this.#ws = ws;
    this.#socket = socket;
    this.#line =
      bytesPerSecond === undefined
        ? undefined
        : new Line(bytesPerSecond, (frame) => this.#write(frame));
  }

  /** Bytes not taken by the reader yet. */
  get unsent(): number {
    return this.#socket.writableLength + (this.#line?.bytes ?? 0);
  }

  /** Whether the reader should not be heard until it has `caughtUp`. */
  get isUnread(): boolean {
    return this.#isOpen && this.#unread > UNREAD_BYTES;
  }

  send(frame: Frame): void {
    if (frame.isAnswer) this.#unread += frame.bytes;
    if (this.#line) this.#line.push(frame);
    else this.#write(frame);
  }

  /** Resolves when there is room for more, the reader is gone, or `wake` says that it is time to look again. */
  async room(isWanted: () => boolean): Promise<void> {
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
    this.wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  get #isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  get #isFull(): boolean {
    return this.#isOpen && this.unsent > ROOM_BYTES;
  }

  #write({ parts, bytes, isAnswer }: Frame): void {
    if (!this.#isOpen) return;
    if (!this.#isCorked) this.#cork();
    const last = parts.length - 1;
    for (let i = 0; i < last; i++) this.#socket.write(parts[i]!);
    this.#socket.write(parts[last]!, () => {
      if (isAnswer) this.#unread -= bytes;
      if (this.#waiting.length > 0 && !(this.#isFull && this.isUnread)) this.wake();
    });
  }

  #cork(): void {
    this.#isCorked = true;
    this.#socket.cork();
    setImmediate(() => {
      this.#isCorked = false;
      this.#socket.uncork();
    });
  }
}
