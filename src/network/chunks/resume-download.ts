/** Downloads a file over HTTP with range requests, so that an interrupted download resumes where it ended. */

/** The part of a file that is downloaded so far. */
export interface PartFile {
  /** Returns the number of bytes; 0 for a new file. */
  size(): Promise<number>;
  /** Writes pieces from byte `from` on, which ends the earlier part, and stores them even if the pieces fail. */
  write(from: number, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  remove(): Promise<void>;
}

export interface ResumedDownload {
  readonly part: PartFile;
  /** Length of the file; undefined if only the server knows. */
  readonly bytes: number | undefined;
  /** Maximum length of the file. */
  readonly most?: number;
  /** Requests the file, or the range in the headers. Throws if it is refused. */
  ask(headers: Readonly<Record<string, string>>): Promise<Response>;
  /** Returns the error for an interrupted download. */
  away(cause: unknown): Error;
  onBytes?(have: number, of: number | undefined): void;
}

/** Completes the part, or throws. Downloaded bytes stay for the next call, unless they are too many. */
export async function resumeDownload(download: ResumedDownload): Promise<void> {
  const { part, bytes, most = Number.POSITIVE_INFINITY, ask, away, onBytes } = download;
  const kept = await part.size();
  let have = kept <= (bytes ?? most) ? kept : 0;
  if (have === bytes && bytes > 0) return;
  const answer = await ask(have > 0 ? { range: `bytes=${have}-` } : {});
  // nothing is missing, or the file on the server changed: the caller checks the hash
  if (answer.status === 416) return;
  if (answer.status !== 206) have = 0;
  const length = Number(answer.headers.get('content-length') ?? Number.NaN);
  const of = bytes ?? (Number.isSafeInteger(length) ? have + length : undefined);
  const limit = Math.min(most, of ?? most);
  async function* within(): AsyncGenerator<Uint8Array> {
    try {
      for await (const piece of bodyOf(answer)) {
        have += piece.length;
        if (have > limit) return;
        yield piece;
        onBytes?.(have, of);
      }
    } catch (cause) {
      throw away(cause);
    }
  }
  await part.write(have, within());
  if (have <= limit && (of === undefined || have === of)) return;
  if (have > limit) await part.remove();
  throw away(
    new Error(have > limit ? `more than ${limit} bytes` : `ended after ${have} of ${of} bytes`),
  );
}

/** Yields the body; a stream is no async iterable in every browser. Cancels the rest if the caller stops. */
export async function* bodyOf({ body }: Response): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader();
  try {
    for (;;) {
      const read = await reader?.read();
      if (!read?.value) return;
      yield read.value;
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
}
