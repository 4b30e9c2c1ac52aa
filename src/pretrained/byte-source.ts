/** Files of a published model, wherever they lie: a folder, one file, a cache, an HTTP server, memory. */

/** Bytes that are read in ranges, so that a file of many gigabytes is never in memory as a whole. */
export interface ByteSource {
  /** What to call it in front of a person. */
  readonly name: string;
  /** Length in bytes. */
  readonly size: number;
  /** The bytes `from` up to, and without, `to`; both lie within the size. */
  read(from: number, to: number): Promise<Uint8Array>;
}

/** The files of one model by their names. */
export interface ModelFiles {
  /** What to call the whole in front of a person. */
  readonly name: string;
  /** Undefined where there is no such file. */
  open(file: string): Promise<ByteSource | undefined>;
}

/** Bytes in memory. */
export const sourceOf = (name: string, bytes: Uint8Array): ByteSource => ({
  name,
  size: bytes.length,
  read: (from, to) => Promise.resolve(bytes.subarray(from, to)),
});
