/**
 * Tokenizes a corpus of any size (a text, or the documents of a .jsonl file) piece by piece into a file, which later
 * runs reuse.
 */

import { concatBytes, utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { shareReporter } from '../../base/slow.ts';
import {
  type ChatTurn,
  type Document,
  encodeDocument,
  encodePieces,
  parseDocument,
  type TextForm,
} from '../../model/data/documents.ts';
import { tokenizers } from '../../model/data/tokens.ts';
import { type ChatRenderer, type ChatTemplate, createChatRenderer } from './chat-renderer.ts';
import {
  holdTokens,
  openTokenFile,
  type TokenFile,
  type TokenSink,
  writeTokenFile,
} from './token-file.ts';

/** A text or documents; each `read` starts from the beginning. */
export interface CorpusSource {
  /** Its path or address; `.jsonl` means documents. */
  readonly name: string;
  readonly sha256: string;
  /** In bytes. */
  readonly size: number;
  /** `memory`: its tokens are not stored in a file. */
  readonly source?: string;
  read(): AsyncIterable<Uint8Array>;
}

/** How texts are tokenized for a model. */
export interface CorpusForm extends TextForm {
  /** Hash of the tokenizer, which is part of the key of the token file. */
  readonly hash: string;
  /** The chat template, if the model has one. */
  readonly chat?: ChatTemplate | undefined;
}

/** Memory limits of tokenizing. */
export interface TokenLimits {
  /** Tokens buffered before they are written. */
  readonly buffer: number;
  /** Maximum bytes of a line. */
  readonly line: number;
  /** Maximum characters of a text that its tokenizer cannot cut. */
  readonly whole: number;
  /** Maximum tokens of a part that is loaded into memory; longer ones are read in windows. */
  readonly inMemory: number;
}

export const usualLimits: TokenLimits = {
  buffer: 2 ** 18,
  line: 2 ** 24,
  whole: 2 ** 26,
  inMemory: 2 ** 24,
};

export interface TokenizeOptions {
  readonly folder: string;
  readonly limits?: TokenLimits;
  readonly onNotice: (message: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Version of the token files; another one makes existing files unused. */
const VERSION = 1;
/** Characters of a text that are collected before they are tokenized. */
const PIECE = 2 ** 16;
/** Maximum lines, and characters, that are rendered at once. */
const BATCH = { lines: 64, characters: 2 ** 20 };

export const isDocuments = (name: string): boolean => /\.jsonl$/i.test(name);

/** Returns the tokens of a corpus, from an existing file or a new one. Throws a ConfigError about unusable text. */
export async function tokenizeCorpus(
  source: CorpusSource,
  form: CorpusForm,
  { folder, limits = usualLimits, onNotice, signal }: TokenizeOptions,
): Promise<TokenFile> {
  const fill = (sink: TokenSink) => {
    const chunks = watched(source, onNotice, signal);
    const add = isDocuments(source.name) ? addDocuments : addText;
    return add(chunks, { source, form, sink, limits });
  };
  if (source.source === 'memory') return holdTokens(fill, limits.buffer);
  const key = keyOf(source, form);
  const kept = await openTokenFile(folder, key);
  return kept ?? (await writeTokenFile(folder, key, fill, limits.buffer));
}

function keyOf({ name, sha256 }: CorpusSource, form: CorpusForm): string {
  const { hash, begin, end, chat = null, tokenizer } = form;
  const kind = isDocuments(name) ? 'documents' : 'text';
  const { vocabulary } = tokenizer;
  const all = [VERSION, kind, sha256, hash, vocabulary, begin, end, chat];
  return `tokens-${sha256Hex(utf8(JSON.stringify(all))).slice(0, 40)}`;
}

/** Yields the bytes of a corpus, and reports progress if it takes long. */
async function* watched(
  { name, size, read }: CorpusSource,
  onNotice: (message: string) => void,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const report = shareReporter(`tokenizing ${name}`, onNotice);
  let have = 0;
  for await (const chunk of read()) {
    signal?.throwIfAborted();
    yield chunk;
    have += chunk.length;
    report(have, size);
  }
}

interface Work {
  readonly source: CorpusSource;
  readonly form: CorpusForm;
  readonly sink: TokenSink;
  readonly limits: TokenLimits;
}

async function addText(
  chunks: AsyncIterable<Uint8Array>,
  { source, form: { tokenizer }, sink, limits }: Work,
): Promise<void> {
  const add = async (text: string | Uint8Array) => {
    const { tokens, replaced } = tokenizer.encode(text);
    sink.replaced(replaced);
    await sink.add(tokens);
  };
  if (tokenizer === tokenizers.bytes) {
    for await (const chunk of chunks) await add(chunk);
    return;
  }
  const decoder = new TextDecoder();
  let text = '';
  let enough = PIECE;
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length < enough) continue;
    const cut = tokenizer.lastCut?.(text) ?? 0;
    if (cut > 0) await add(text.slice(0, cut));
    text = text.slice(cut);
    // a text that cannot be cut is searched again only when it has doubled
    enough = Math.max(PIECE, 2 * text.length);
    if (text.length <= limits.whole) continue;
    throw new ConfigError(
      'corpus/whole',
      `${source.name} has more than ${limits.whole} characters that this tokenizer cannot cut`,
      { hint: 'divide it into documents: a .jsonl file with {"text": …} on each line' },
    );
  }
  text += decoder.decode();
  if (text !== '') await add(text);
}

async function addDocuments(chunks: AsyncIterable<Uint8Array>, work: Work): Promise<void> {
  const { form, source, limits } = work;
  const renderer = form.chat && createChatRenderer(form.chat);
  try {
    let batch: Read[] = [];
    let characters = 0;
    for await (const line of linesOf(chunks, { file: source.name, mostBytes: limits.line })) {
      const parsed = parseDocument(line.text);
      if (!parsed.ok) throw lineError(source.name, line.number, parsed.issue.message);
      batch.push({ line, document: parsed.value });
      characters += line.text.length;
      if (batch.length < BATCH.lines && characters < BATCH.characters) continue;
      await addBatch(batch, renderer, work);
      [batch, characters] = [[], 0];
    }
    await addBatch(batch, renderer, work);
  } finally {
    await renderer?.close();
  }
}

interface Read {
  readonly line: Line;
  readonly document: Document;
}

async function addBatch(
  batch: readonly Read[],
  renderer: ChatRenderer | undefined,
  { source, form, sink }: Work,
): Promise<void> {
  const chats = batch.flatMap(({ line, document }) =>
    document.kind === 'messages' ? [{ line, messages: document.messages }] : [],
  );
  const lessons = await renderAll(chats, renderer, source);
  let next = 0;
  for (const { document } of batch) {
    const encoded =
      document.kind === 'messages'
        ? lessons[next++]!.map((pieces) => encodePieces(pieces, form))
        : [encodeDocument(document, form)];
    for (const { tokens, counted } of encoded) {
      await sink.add(tokens, counted);
      sink.endDocument();
    }
  }
}

async function renderAll(
  chats: readonly { readonly line: Line; readonly messages: readonly ChatTurn[] }[],
  renderer: ChatRenderer | undefined,
  { name }: CorpusSource,
) {
  if (chats.length === 0) return [];
  if (!renderer) {
    const reason = 'it has messages, and the model has no chat template';
    throw lineError(name, chats[0]!.line.number, reason);
  }
  const answer = await renderer.render(chats.map(({ messages }) => messages));
  if ('lessons' in answer) return answer.lessons;
  throw lineError(name, chats[answer.at]!.line.number, answer.reason);
}

export interface Line {
  /** Line number, from 1. */
  readonly number: number;
  readonly text: string;
}

const NEWLINE = 10;

/** Yields the lines of a file. Throws a ConfigError (`corpus/line`) if one is too long or not UTF-8. */
async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  { file, mostBytes }: { readonly file: string; readonly mostBytes: number },
): AsyncGenerator<Line> {
  let parts: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const take = (end: Uint8Array): Line | undefined => {
    const bytes = concatBytes(...parts, end);
    [parts, length] = [[], 0];
    try {
      const text = decoder.decode(bytes).trim();
      return text === '' ? undefined : { number, text };
    } catch (cause) {
      throw lineError(file, number, 'it is not UTF-8', cause);
    }
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      if (length + at - from > mostBytes) throw tooLong(file, number, mostBytes);
      const line = take(chunk.subarray(from, at));
      if (line) yield line;
      number++;
      from = at + 1;
    }
    parts.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > mostBytes) throw tooLong(file, number, mostBytes);
  }
  const line = take(new Uint8Array());
  if (line) yield line;
}

const tooLong = (file: string, number: number, most: number): ConfigError =>
  lineError(file, number, `it is longer than ${most} bytes`);

/** Returns the error about one line of a corpus. */
const lineError = (file: string, number: number, reason: string, cause?: unknown): ConfigError =>
  new ConfigError('corpus/line', `line ${number} of ${file} cannot be used: ${reason}`, {
    hint:
      'each line of a .jsonl corpus is {"text": …}, {"prompt": …, "completion": …} or ' +
      '{"messages": […]}',
    data: { line: number },
    cause,
  });
