/**
 * Events on disk in order of arrival. An append resolves once it is synced; appends that wait are synced together.
 * When much of the log no longer counts, its oldest segment goes: what still counts in it is appended again first. Only
 * the oldest may go, so that an event never outlives on disk the deletion or the newer version that came after it.
 */
import type { FileHandle } from 'node:fs/promises';
import { encodeRecord, openSegment, readSegment, removeSegment, type Segment } from './segments.ts';

/** While appends that wait for the disk hold more than this, the log is behind. */
const BEHIND_BYTES = 8 << 20;

/** What the log is kept for. */
export interface LiveEvents {
  /** Bytes of all events that count. */
  readonly bytes: number;
  /** The event of this id, if it counts. */
  find(id: string): object | undefined;
}

export interface LogOptions {
  readonly folder: string;
  readonly kept: LiveEvents;
  /** A segment that has grown beyond this is followed by a new one. */
  readonly segmentBytes: number;
}

/** Where the id is in an event's JSON as the relay writes it. */
const ID_START = '{"id":"'.length;

const idOf = (json: Buffer): string => json.toString('latin1', ID_START, ID_START + 64);

export class EventLog {
  readonly #options: LogOptions;
  /** Full segments, oldest first. */
  readonly #full: Segment[];
  #number: number;
  #file: FileHandle;
  #bytes: number;
  /** Events moved in this pass over the log, and the last segment that it goes over. */
  #moved = new WeakSet<object>();
  #passEnd = 0;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** The commit that will take what waits, when one is planned. */
  #next: Promise<void> | undefined;
  /** The latest commit; once one has failed, all later ones fail with it. */
  #last: Promise<void> = Promise.resolve();

  private constructor(options: LogOptions, full: Segment[], last: Segment, file: FileHandle) {
    this.#options = options;
    this.#full = full;
    this.#number = last.number;
    this.#bytes = last.bytes;
    this.#file = file;
  }

  /** Continues the last of these segments. */
  static async open(options: LogOptions, segments: readonly Segment[]): Promise<EventLog> {
    const last = segments.at(-1) ?? { number: 1, bytes: 0 };
    const file = await openSegment(options.folder, last.number);
    return new EventLog(options, segments.slice(0, -1), last, file);
  }

  /** Whether more events are coming than the disk takes; whoever brings them should wait until `settled`. */
  get isBehind(): boolean {
    return this.#waitingBytes > BEHIND_BYTES;
  }

  /** Whether more than half of the log, and more than a segment, no longer counts. */
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

  /** Rewrites all of the log, so that nothing is left on disk but what counts. */
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
    this.#last.catch(() => undefined); // whoever asked for the work hears of it
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

  /** What is moved from here on goes beyond the end of the pass, so that no segment of it holds a copy made in it. */
  async #beginPass(): Promise<void> {
    this.#moved = new WeakSet();
    this.#passEnd = this.#number;
    await this.#rotate();
  }

  /** Removes the oldest segment, once what counts in it is on disk again. */
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

  /** Whether an event is to be appended again: one that left and came back has two records, of which one is enough. */
  #moves(event: object | undefined): boolean {
    if (!event || this.#moved.has(event)) return false;
    this.#moved.add(event);
    return true;
  }
}

/** Writes all buffers, however many calls it takes, and says how many bytes that was. */
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
