/** Events on disk in order of arrival. An append resolves once it is synced; appends that wait are synced together. */
import type { FileHandle } from 'node:fs/promises';
import { encodeRecord } from './record.ts';
import { openSegment } from './segments.ts';

/** A segment that has grown beyond this is followed by a new one. */
const SEGMENT_BYTES = 64 << 20;

/** While appends that wait for the disk hold more than this, the log is behind. */
const BEHIND_BYTES = 8 << 20;

export class EventLog {
  readonly #folder: string;
  #number: number;
  #file: FileHandle;
  #bytes: number;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** The commit that will take what waits, when one is planned. */
  #next: Promise<void> | undefined;
  /** The latest commit; once one has failed, all later ones fail with it. */
  #last: Promise<void> = Promise.resolve();

  private constructor(folder: string, number: number, file: FileHandle, bytes: number) {
    this.#folder = folder;
    this.#number = number;
    this.#file = file;
    this.#bytes = bytes;
  }

  /** Continues the segment of this number, which holds so many bytes. */
  static async open(folder: string, number: number, bytes: number): Promise<EventLog> {
    return new EventLog(folder, number, await openSegment(folder, number), bytes);
  }

  /** Whether more events are coming than the disk takes; whoever brings them should wait until `settled`. */
  get isBehind(): boolean {
    return this.#waitingBytes > BEHIND_BYTES;
  }

  /** Resolves when the event is on disk. */
  append(json: Buffer): Promise<void> {
    this.#waiting.push(encodeRecord(json));
    this.#waitingBytes += json.length;
    if (!this.#next) {
      this.#next = this.#last.then(() => this.#commit());
      this.#next.catch(() => undefined); // every append hears of it
      this.#last = this.#next;
    }
    return this.#next;
  }

  /** Resolves when everything appended so far is on disk. */
  settled(): Promise<void> {
    return this.#last;
  }

  async close(): Promise<void> {
    await this.#last.catch(() => undefined);
    await this.#file.close();
  }

  async #commit(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#next = undefined;
    if (this.#bytes > SEGMENT_BYTES) await this.#rotate();
    await this.#file.appendFile(bytes);
    await this.#file.datasync();
    this.#bytes += bytes.length;
  }

  async #rotate(): Promise<void> {
    const full = this.#file;
    this.#file = await openSegment(this.#folder, this.#number + 1);
    this.#number++;
    this.#bytes = 0;
    await full.close();
  }
}
