/**
 * Parses and tokenizes documents, one JSON object per line: a text, a prompt with its completion, or a conversation.
 * Tokens of prompts and of roles other than the assistant do not count in the loss.
 */
import { jsonIn } from '../../base/canonical-json.ts';
import { type Issue, ok, type Result, refuse } from '../../base/errors.ts';
import { isObject } from '../../base/shape.ts';
import type { Tokenizer } from './tokens.ts';

/** A turn of a conversation, with any other members of its JSON. */
export interface ChatTurn {
  readonly role: string;
  readonly content: string;
}

export type Document =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'completion'; readonly prompt: string; readonly completion: string }
  | { readonly kind: 'messages'; readonly messages: readonly ChatTurn[] };

/** A range of text that is trained on as a whole, or masked as a whole. */
export interface ChatPiece {
  readonly text: string;
  readonly counted: boolean;
}

/** How documents become tokens for a model. */
export interface TextForm {
  readonly tokenizer: Tokenizer;
  /** Tokens before each text and prompt. */
  readonly begin: readonly number[];
  /** Tokens after each document: the end-of-text token, or a newline if the model has none. */
  readonly end: readonly number[];
  /** Ids of special tokens, which do not stand for text. */
  readonly special: ReadonlySet<number>;
}

export interface EncodedDocument {
  readonly tokens: readonly number[];
  /** 1 for each token that counts in the loss, else 0. */
  readonly counted: readonly (0 | 1)[];
}

const MOST_TURNS = 1024;
const FORMS = 'text, prompt with completion, or messages';

/** Parses one line. Members that its form does not use are ignored. */
export function parseDocument(line: string): Result<Document> {
  const value = jsonIn(line);
  if (value === undefined) return bad('not valid JSON');
  if (!isObject(value)) return bad(`not an object with ${FORMS}`);
  const { text, prompt, completion, messages } = value;
  const isCompletion = prompt !== undefined || completion !== undefined;
  const forms = [text !== undefined, isCompletion, messages !== undefined].filter(Boolean);
  if (forms.length === 0) return bad(`has none of ${FORMS}`);
  if (forms.length > 1) return bad(`has more than one of ${FORMS}`);
  if (messages !== undefined) return parseTurns(messages);
  if (!isCompletion) {
    return typeof text === 'string' && text !== ''
      ? ok({ kind: 'text', text })
      : bad('text is empty or not a string');
  }
  if (typeof prompt !== 'string') return bad('prompt is not a string');
  if (typeof completion !== 'string' || completion === '') {
    return bad('completion is empty or not a string');
  }
  return ok({ kind: 'completion', prompt, completion });
}

function parseTurns(value: unknown): Result<Document> {
  if (!Array.isArray(value) || value.length === 0 || value.length > MOST_TURNS) {
    return bad(`messages is not a list of 1 to ${MOST_TURNS} turns`);
  }
  for (const [i, turn] of value.entries()) {
    const { role, content } = (turn ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof role !== 'string') return bad(`message ${i + 1} has no role`);
    if (typeof content !== 'string') return bad(`the content of message ${i + 1} is not a string`);
  }
  const messages = value as readonly ChatTurn[];
  if (messages.some(({ role }) => role === 'assistant')) return ok({ kind: 'messages', messages });
  return bad('no message is from the assistant, so nothing in it can be learned');
}

const bad = (message: string): { readonly ok: false; readonly issue: Issue } =>
  refuse('document', '', message);

/** Tokenizes a text, or a prompt with its completion. */
export function encodeDocument(
  document: Exclude<Document, { readonly kind: 'messages' }>,
  form: TextForm,
): EncodedDocument {
  const { begin, end } = form;
  const ids = (text: string) => form.tokenizer.encode(text).tokens;
  const all = document.kind === 'text' ? document.text : document.completion;
  const prompt = document.kind === 'text' ? [] : ids(document.prompt);
  const first = document.kind === 'text' ? 1 : 0;
  return joined([
    [begin, first],
    [prompt, 0],
    [ids(all), 1],
    [end, 1],
  ]);
}

/**
 * Tokenizes a rendered conversation piece by piece, as prompts are tokenized when the model answers. White space after
 * a special token that ends a turn does not count. The end of the document is added if missing.
 */
export function encodePieces(pieces: readonly ChatPiece[], form: TextForm): EncodedDocument {
  const ids = (text: string) => (text === '' ? [] : form.tokenizer.encode(text).tokens);
  const parts: (readonly [ids: ArrayLike<number>, counted: 0 | 1])[] = [];
  let rest = '';
  let last: number | undefined;
  for (const { text, counted } of pieces) {
    if (counted) parts.push([ids(rest), 0]);
    const encoded = ids(counted ? text : rest + text);
    rest = '';
    const trimmed = text.trimEnd();
    const core = counted && trimmed !== text ? ids(trimmed) : encoded;
    const isEnded = core !== encoded && form.special.has(core[core.length - 1]!);
    if (isEnded) rest = text.slice(trimmed.length);
    const kept = isEnded ? core : encoded;
    parts.push([kept, counted ? 1 : 0]);
    last = kept[kept.length - 1] ?? last;
  }
  parts.push([ids(rest), 0]);
  if (last === undefined || form.end.length !== 1 || last !== form.end[0]) {
    parts.push([form.end, pieces.at(-1)?.counted ? 1 : 0]);
  }
  return joined(parts);
}

function joined(
  parts: readonly (readonly [ids: ArrayLike<number>, counted: 0 | 1])[],
): EncodedDocument {
  const tokens: number[] = [];
  const counted: (0 | 1)[] = [];
  for (const [ids, mark] of parts) {
    for (let i = 0; i < ids.length; i++) {
      tokens.push(ids[i]!);
      counted.push(mark);
    }
  }
  return { tokens, counted };
}
