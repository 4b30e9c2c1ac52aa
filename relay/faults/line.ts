/** A slow line: frames leave one after the other, each when its bytes have had time to pass. */

export class Line {
  readonly #bytesPerSecond: number;
  readonly #send: (frame: Buffer) => void;
  readonly #queue: Buffer[] = [];
  #timer: NodeJS.Timeout | undefined;
  #bytes = 0;

  constructor(bytesPerSecond: number, send: (frame: Buffer) => void) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#send = send;
  }

  /** Not sent yet. */
  get bytes(): number {
    return this.#bytes;
  }

  push(frame: Buffer): void {
    this.#queue.push(frame);
    this.#bytes += frame.length;
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
    const ms = (frame.length / this.#bytesPerSecond) * 1000;
    this.#timer = setTimeout(() => {
      this.#queue.shift();
      this.#bytes -= frame.length;
      this.#send(frame);
      this.#advance();
    }, ms);
  }
}
