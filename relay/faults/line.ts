/** A slow line: frames leave one after the other, each when its bytes have had time to pass. */

import type { Frame } from '../frames.ts';

export class Line {
  readonly #bytesPerSecond: number;
  readonly #send: (frame: Frame) => void;
  readonly #queue: Frame[] = [];
  #timer: NodeJS.Timeout | undefined;
  #bytes = 0;

  constructor(bytesPerSecond: number, send: (frame: Frame) => void) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#send = send;
  }

  /** Not sent yet. */
  get bytes(): number {
    return this.#bytes;
  }

  push(frame: Frame): void {
    this.#queue.push(frame);
    this.#bytes += frame.bytes;
    if (!this.#timer) this.#advance();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#queue.length = 0;
    this.#bytes = 0;
  }

  #advance(): void {
    const frame = this.#queue[0];
    this.#timer = undefined;
    if (!frame) return;
    const ms = (frame.bytes / this.#bytesPerSecond) * 1000;
    this.#timer = setTimeout(() => {
      this.#queue.shift();
      this.#bytes -= frame.bytes;
      this.#send(frame);
      this.#advance();
    }, ms);
  }
}
