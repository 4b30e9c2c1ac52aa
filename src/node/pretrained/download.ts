/** Downloads that go on where they were: of a large file, only what is not on disk yet is asked for. */
import { open, rm, stat } from 'node:fs/promises';

export interface ResumedDownload {
  /** What is on disk of it, and where the rest goes. */
  readonly part: string;
  /** The length of the whole; undefined where only the server knows. */
  readonly bytes: number | undefined;
  /** No file is longer. */
  readonly most?: number;
  /** Asks for the file, or for what the headers say of it; throws what it cannot get. */
  ask(headers: Readonly<Record<string, string>>): Promise<Response>;
  /** The error of a body that breaks off. */
  away(cause: unknown): Error;
  onBytes?(have: number, of: number | undefined): void;
}

/** Leaves the whole file at `part`, or throws; what has arrived stays for the next time, unless it is too long. */
export async function resumeDownload(download: ResumedDownload): Promise<void> {
  const { part, bytes, most = Number.POSITIVE_INFINITY, ask, away, onBytes } = download;
  const kept = await stat(part).catch(() => undefined);
  let have = kept && kept.size <= (bytes ?? most) ? kept.size : 0;
  if (have === bytes && bytes > 0) return;
  const answer = await ask(have > 0 ? { range: `bytes=${have}-` } : {});
  // nothing is missing, or the file has become another one: only its hash can tell
  if (answer.status === 416) return;
  if (answer.status !== 206) have = 0;
  const length = Number(answer.headers.get('content-length') ?? Number.NaN);
  const of = bytes ?? (Number.isSafeInteger(length) ? have + length : undefined);
  const limit = Math.min(most, of ?? most);
  const handle = await open(part, have > 0 ? 'a' : 'w', 0o600);
  try {
    const body = answer.body as unknown as AsyncIterable<Uint8Array>;
    for await (const piece of body) {
      have += piece.length;
      if (have > limit) break;
      await handle.write(piece);
      onBytes?.(have, of);
    }
  } catch (cause) {
    throw away(cause);
  } finally {
    await handle.close();
  }
  if (have <= limit && (of === undefined || have === of)) return;
  if (have > limit) await rm(part);
  throw away(
    new Error(have > limit ? `more than ${limit} bytes` : `ended after ${have} of ${of} bytes`),
  );
}
