/**
 * Log of events on disk in order of arrival. An append resolves once it is synced; waiting appends are synced together.
 * When much of the log is obsolete, the oldest segment is removed, after its live events were appended again. Only the
 * oldest segment is removed, so that an event on disk never outlives a later deletion or newer version of it.
 */
import type { FileHandle } from 'node:fs/promises';
import { encodeRecord, openSegment, readSegment, removeSegment, type Segment } from './segments.ts';

/** The log is behind while waiting appends exceed this size. */
const BEHIND_BYTES = 8 << 20;

/** The live events of the store. */
export interface LiveEvents {
  /** Bytes of all live events. */
  readonly bytes: number;
  /** Returns the event of this id, if it is live. */
  find(id: string): object | undefined;
}

export interface LogOptions {
  readonly folder: string;
  readonly kept: LiveEvents;
  /** A segment larger than this is followed by a new one. */
  readonly segmentBytes: number;
}

/** Position of the id in an event's JSON as the relay writes it. */
const ID_START = '{"id":"'.length;

const idOf = (json: Buffer): string => json.toString('latin1', ID_START, ID_START + 64);

export class EventLog {
  readonly #options: LogOptions;
  /** Full segments, oldest first. */
  readonly #full: Segment[];
  #number: number;
  #file: FileHandle;
  #bytes: number;
  /** Events moved in this pass over the log, and the last segment of the pass. */
  #moved = new WeakSet<object>();
  #passEnd = 0;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** The commit that will write the waiting appends, if one is planned. */
  #next: Promise<void> | undefined;
  /** The latest commit; once one has failed, all later ones fail too. */
  #last: Promise<void> = Promise.resolve();

  private constructor(options: LogOptions, full: Segment[], last: Segment, file: FileHandle) {
    this.#options = options;
    this.#full = full;
    this.#number = last.number;
    this.#bytes = last.bytes;
    this.#file = file;
  }

  /** Opens the log and continues its last segment. */
  static async open(options: LogOptions, segments: readonly Segment[]): Promise<EventLog> {
    const last = segments.at(-1) ?? { number: 1, bytes: 0 };
    const file = await openSegment(options.folder, last.number);
    return new EventLog(options, segments.slice(0, -1), last, file);
  }

  /** Whether events arrive faster than the disk writes; callers should wait for `settled`. */
  get isBehind(): boolean {
    return this.#waitingBytes > BEHIND_BYTES;
  }

  /** Whether more than half of the log, and more than one segment, is obsolete. */
  get isWasteful(): boolean {
    const { kept, segmentBytes } = this.#options;
    const bytes = this.#full.reduce((sum, segment) => sum + segment.bytes, this.#bytes);
    return bytes > 2 * kept.bytes + segmentBytes;
  }

  /** Resolves when the event is on disk. */
  append(json: Buffer): Promise<void> {
    this.#waiting.push(...encodeRecord(json));
    this.#waitingBytes += json.length;
    this.#next ??= this.#after(() => this.#commit());
    return this.#next;
  }

  /** Rewrites the whole log, so that only live events remain on disk. */
  rewrite(): Promise<void> {
    return this.#after(async () => {
      await this.#beginPass();
      for (let count = this.#full.length; count > 0; count--) await this.#shed();
    });
  }

  /** Resolves when everything appended so far is on disk. */
  settled(): Promise<void> {
    return this.#last;
  }

  async close(): Promise<void> {
    await this.#last.catch(() => undefined);
    await this.#file.close();
  }

  #after(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work);
    this.#last.catch(() => undefined); // the caller handles the error
    return this.#last;
  }

  async #commit(): Promise<void> {
    const buffers = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#next = undefined;
    await this.#write(buffers);
    if (this.isWasteful && this.#full.length > 0) void this.#after(() => this.#shed());
  }

  async #write(buffers: readonly Buffer[]): Promise<void> {
    if (this.#bytes > this.#options.segmentBytes) await this.#rotate();
    this.#bytes += await writeAll(this.#file, buffers);
    await this.#file.datasync();
  }

  async #rotate(): Promise<void> {
    const file = await openSegment(this.#options.folder, this.#number + 1);
    await this.#file.close();
    this.#full.push({ number: this.#number, bytes: this.#bytes });
    this.#number++;
    this.#bytes = 0;
    this.#file = file;
  }

  /**
   * Starts a pass. Events moved from here on go to segments after its end, so that the pass does not move them again.
   */
  async #beginPass(): Promise<void> {
    this.#moved = new WeakSet();
    this.#passEnd = this.#number;
    await this.#rotate();
  }

  /** Removes the oldest segment, after appending its live events again. */
  async #shed(): Promise<void> {
    const { folder, kept } = this.#options;
    const { number } = this.#full[0]!;
    if (number > this.#passEnd) await this.#beginPass();
    const { jsons } = await readSegment(folder, number, false);
    const alive = jsons.filter((json) => this.#moves(kept.find(idOf(json))));
    if (alive.length > 0) await this.#write(alive.flatMap(encodeRecord));
    await removeSegment(folder, number);
    this.#full.shift();
  }

  /**
   * Reports whether to append an event again: one that was deleted and came back has two records, of which one is
   * enough.
   */
  #moves(event: object | undefined): boolean {
    if (!event || this.#moved.has(event)) return false;
    this.#moved.add(event);
    return true;
  }
}

/** Writes all buffers, in as many calls as needed, and returns the number of bytes. */
async function writeAll(file: FileHandle, buffers: readonly Buffer[]): Promise<number> {
  let written = 0;
  let rest = [...buffers];
  while (rest.length > 0) {
    const { bytesWritten } = await file.writev(rest);
    written += bytesWritten;
    let taken = bytesWritten;
    while (rest.length > 0 && taken >= rest[0]!.length) taken -= rest.shift()!.length;
    if (rest.length > 0) rest = [rest[0]!.subarray(taken), ...rest.slice(1)];
  }
  return written;
}
