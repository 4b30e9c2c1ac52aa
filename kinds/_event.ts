/** The NIP-01 event envelope: checks the form of an event before its tags are read. Does not verify signatures. */
import type { Rows } from './_tags.ts';

/** An event before its author signs it. */
export interface Draft {
  readonly kind: number;
  readonly created_at: number;
  readonly tags: readonly (readonly string[])[];
  readonly content: string;
}

/** Why an event is refused: a stable code, the place, a sentence. */
export interface Issue {
  readonly code: string;
  readonly at: string;
  readonly message: string;
}

/** What `Kind.parse` gives: the value, or why the event is refused. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly issue: Issue };

export const refuse = (code: string, at: string, message: string): { ok: false; issue: Issue } => ({
  ok: false,
  issue: { code, at, message },
});

const MAX_TAGS = 512;

export interface Envelope {
  readonly content: string;
  /** Values of every tag of that name, in order. */
  rowsOf(tag: string): Rows;
}

/** Reads any JSON value as an event of one kind. */
export function openEnvelope(event: unknown, kind: number): Parsed<Envelope> {
  if (!isRecord(event)) return refuse('not-an-event', 'event', 'an event is a JSON object');
  if (event.kind !== kind) return refuse('wrong-kind', 'kind', `the kind is not ${kind}`);
  const { created_at: createdAt, content, tags } = event;
  if (typeof createdAt !== 'number' || !Number.isSafeInteger(createdAt) || createdAt < 0) {
    return refuse('bad-created-at', 'created_at', 'created_at is not a count of seconds');
  }
  if (typeof content !== 'string') return refuse('bad-content', 'content', 'content is not text');
  if (!Array.isArray(tags) || tags.length > MAX_TAGS) {
    return refuse('bad-tags', 'tags', `tags are not a list of at most ${MAX_TAGS}`);
  }
  const rows: readonly unknown[] = tags;
  const bad = rows.findIndex((row) => !isRow(row));
  if (bad >= 0) return refuse('bad-tags', `tags.${bad}`, 'a tag is a list of non-empty texts');
  const byName = new Map<string, string[][]>();
  for (const [tag, ...values] of rows.filter(isRow)) {
    byName.set(tag, [...(byName.get(tag) ?? []), values]);
  }
  return { ok: true, value: { content, rowsOf: (tag) => byName.get(tag) ?? [] } };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isRow = (row: unknown): row is readonly [string, ...string[]] =>
  Array.isArray(row) &&
  row.length > 0 &&
  row.every((item) => typeof item === 'string' && item !== '');
