/**
 * Stores a tokenized corpus in files: 32-bit ids, a byte per token that says whether its loss counts, and the ends of
 * documents. Files are written under a temporary name and renamed, so an existing file is complete.
 */
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { concatBytes } from '../../base/bytes.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { ConfigError, TrainingError } from '../../base/errors.ts';
import {
  assertTokens,
  openTokens as openParts,
  type StoredTokens,
  type TokenPart,
  type TokenReader,
} from '../../model/data/tokens.ts';

export interface TokenFile {
  /** File of the ids, 4 bytes each, little-endian. */
  readonly ids: string;
  /** File with a byte per token, 1 if its loss counts; undefined if all count. */
  readonly counted: string | undefined;
  readonly tokens: number;
  /** Ends of groups of complete documents, ascending, in tokens; empty for a single text. */
  readonly stops: readonly number[];
  readonly documents: number;
  /** Number of characters that the vocabulary lacks. */
  readonly replaced: number;
  /** The tokens themselves, if they must not be in a file; then `ids` is empty. */
  readonly memory?: { readonly ids: Int32Array; readonly counted: Uint8Array | undefined };
}

/** Writes tokens to a file through a buffer. */
export interface TokenSink {
  add(tokens: ArrayLike<number>, counted?: ArrayLike<number>): Promise<void>;
  endDocument(): void;
  replaced(characters: number): void;
}

/** Maximum number of groups; above it, groups are merged in pairs. */
const MOST_STOPS = 2 ** 16;
const VERSION = 1;

const namesOf = (folder: string, key: string) => ({
  ids: join(folder, `${key}.ids`),
  counted: join(folder, `${key}.counted`),
  about: join(folder, `${key}.json`),
});

/** Returns the file of this key; undefined if it is missing or incomplete. */
export async function openTokenFile(folder: string, key: string): Promise<TokenFile | undefined> {
  const names = namesOf(folder, key);
  const text = await readFile(names.about, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const about = parse(text);
  if (!about) return undefined;
  const { masked, ...rest } = about;
  const sizes = await Promise.all([sizeOf(names.ids), masked ? sizeOf(names.counted) : undefined]);
  if (sizes[0] !== 4 * about.tokens || (masked && sizes[1] !== about.tokens)) return undefined;
  return { ...rest, ids: names.ids, counted: masked ? names.counted : undefined };
}

type About = Omit<TokenFile, 'ids' | 'counted' | 'memory'> & { readonly masked: boolean };

function parse(text: string): About | undefined {
  const parsed = jsonIn(text) as (About & { readonly version: unknown }) | null | undefined;
  if (parsed?.version !== VERSION) return undefined;
  const { version: _, ...about } = parsed;
  return about;
}

const sizeOf = async (file: string): Promise<number | undefined> =>
  (await stat(file).catch(() => undefined))?.size;

/** Writes the tokens that `fill` adds to the sink, buffering `buffer` tokens. Leaves no files behind on an error. */
export async function writeTokenFile(
  folder: string,
  key: string,
  fill: (sink: TokenSink) => Promise<void>,
  buffer: number,
): Promise<TokenFile> {
  const names = namesOf(folder, key);
  const aside = join(folder, `${key}.${randomUUID()}`);
  const [ids, counted, about] = [`${aside}.ids`, `${aside}.counted`, `${aside}.json`];
  try {
    await mkdir(folder, { recursive: true });
    const written = await write({ ids, counted }, fill, buffer);
    const handle = await open(about, 'w', 0o600);
    await handle.writeFile(JSON.stringify({ version: VERSION, ...written }));
    await handle.close();
    await rename(ids, names.ids);
    if (written.masked) await rename(counted, names.counted);
    await rename(about, names.about);
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw unwritable(folder, error);
    throw error;
  } finally {
    for (const file of [ids, counted, about]) await rm(file, { force: true });
  }
  const file = await openTokenFile(folder, key);
  if (file) return file;
  throw unwritable(folder, new Error('the written file is missing'));
}

/** Keeps the tokens that `fill` adds in memory. */
export async function holdTokens(
  fill: (sink: TokenSink) => Promise<void>,
  buffer: number,
): Promise<TokenFile> {
  const parts: readonly Uint8Array[][] = [[], []];
  const [ids, marks] = parts.map((part) => ({
    writeFile: async (bytes: Uint8Array) => void part.push(bytes.slice()),
  }));
  const sink = createSink([ids!, marks!], buffer);
  await fill(sink);
  const { masked, ...about } = await sink.finish();
  const [tokens, counted] = parts.map((part) => concatBytes(...part));
  const memory = { ids: idsOf(tokens!), counted: masked ? counted : undefined };
  return { ...about, ids: '', counted: undefined, memory };
}

const unwritable = (folder: string, cause: Error): ConfigError =>
  new ConfigError('corpus/cache', `tokens cannot be stored in ${folder} (${cause.message})`, {
    hint: 'free disk space, or name another data folder with NOSTRAIN_HOME',
    cause,
  });

async function write(
  names: { readonly ids: string; readonly counted: string },
  fill: (sink: TokenSink) => Promise<void>,
  buffer: number,
): Promise<About> {
  const files = [await open(names.ids, 'w', 0o600), await open(names.counted, 'w', 0o600)] as const;
  try {
    const sink = createSink(files, buffer);
    await fill(sink);
    return await sink.finish();
  } finally {
    for (const file of files) await file.close();
  }
}

/** Where the bytes of tokens go. */
interface ByteSink {
  writeFile(bytes: Uint8Array): Promise<void>;
}

function createSink(files: readonly [ids: ByteSink, counted: ByteSink], buffer: number) {
  const ids = new DataView(new ArrayBuffer(4 * buffer));
  const marks = new Uint8Array(buffer);
  let [buffered, written, documents, replaced] = [0, 0, 0, 0];
  let masked = false;
  let stops: number[] = [];
  /** Number of documents per group of `stops`. */
  let each = 1;
  const flush = async (): Promise<void> => {
    await files[0].writeFile(new Uint8Array(ids.buffer, 0, 4 * buffered));
    await files[1].writeFile(marks.subarray(0, buffered));
    written += buffered;
    buffered = 0;
  };
  return {
    async add(tokens: ArrayLike<number>, counted?: ArrayLike<number>): Promise<void> {
      for (let i = 0; i < tokens.length; i++) {
        if (buffered === buffer) await flush();
        const mark = counted?.[i] ?? 1;
        if (mark === 0) masked = true;
        ids.setInt32(4 * buffered, tokens[i]!, true);
        marks[buffered++] = mark;
      }
    },
    endDocument(): void {
      documents++;
      if (documents % each === 0) stops.push(written + buffered);
      if (stops.length <= MOST_STOPS) return;
      stops = stops.filter((_, i) => i % 2 === 1);
      each *= 2;
    },
    replaced(characters: number): void {
      replaced += characters;
    },
    async finish(): Promise<About> {
      await flush();
      // the last group may have fewer documents
      if (documents > 0 && stops.at(-1) !== written) stops.push(written);
      return { tokens: written, masked, stops, documents, replaced };
    },
  };
}

/** Opens a part for reading, from memory or from files. */
export const openTokens = (part: TokenPart): TokenReader => openParts(part, openStored);

/** Opens a part in files; windows are read on demand. */
export function openStored({
  file,
  countedFile,
  ranges,
  length,
  vocabulary,
}: StoredTokens): TokenReader {
  const ids = openSync(file, 'r');
  const counted = countedFile === undefined ? undefined : openSync(countedFile, 'r');
  const starts = new Float64Array(ranges.length / 2);
  for (let i = 1; i < starts.length; i++) {
    starts[i] = starts[i - 1]! + ranges[2 * i - 1]! - ranges[2 * i - 2]!;
  }
  const read = (handle: number, name: string, from: number, to: number, width: number) => {
    const bytes = new Uint8Array((to - from) * width);
    for (let at = from, i = rangeIndexAt(starts, from); at < to; i++) {
      const position = ranges[2 * i]! + at - starts[i]!;
      const end = Math.min(to, at + ranges[2 * i + 1]! - position);
      const piece = bytes.subarray((at - from) * width, (end - from) * width);
      readAll(handle, name, piece, position * width);
      at = end;
    }
    return bytes;
  };
  return {
    length,
    isMasked: counted !== undefined,
    tokens: (from, to) => {
      const tokens = idsOf(read(ids, file, from, to, 4));
      assertTokens(tokens, vocabulary);
      return tokens;
    },
    counted: (from, to) =>
      counted === undefined
        ? new Uint8Array(to - from).fill(1)
        : read(counted, countedFile!, from, to, 1),
    close: () => {
      closeSync(ids);
      if (counted !== undefined) closeSync(counted);
    },
  };
}

/** Returns the index of the range that holds the token at a position. */
function rangeIndexAt(starts: Float64Array, position: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (starts[middle]! <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

function readAll(handle: number, name: string, into: Uint8Array, from: number): void {
  for (let done = 0; done < into.length; ) {
    const count = readSync(handle, into, done, into.length - done, from + done);
    if (count === 0) {
      throw new TrainingError('training/data', `${name} became shorter while it was read`, {
        hint: 'delete it and run the same command again: it is rebuilt from the corpus',
      });
    }
    done += count;
  }
}

/** Decodes little-endian 32-bit integers on any machine. */
function idsOf(bytes: Uint8Array): Int32Array {
  const view = new DataView(bytes.buffer);
  return Int32Array.from({ length: bytes.length / 4 }, (_, i) => view.getInt32(4 * i, true));
}
