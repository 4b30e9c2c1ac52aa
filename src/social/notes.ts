/**
 * A corpus of notes: events of chosen authors under one Merkle root, so that all who fetch them train on the same
 * bytes. Events that their authors deleted (NIP-09), or that a request to vanish covers (NIP-62), are left out.
 */

import { fromHex, utf8 } from '../base/bytes.ts';
import { canonicalJson, parseJson } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import { merkleTree } from '../base/merkle.ts';
import { isCount, isHash, isWithin, listOf, shape } from '../base/shape.ts';
import { newestOf, type SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';
import { JsonReader } from '../run/json-reader.ts';
import { MOST_NOTES } from '../run/spec/feature-fields.ts';

const DELETION = 5;
const VANISH = 62;
const FORMAT = 'nostrain/notes/2';
/** Maximum authors of a corpus. */
export const MOST_AUTHORS = 256;
/** Maximum characters of a definition with as many notes as allowed. */
const LONGEST_DEFINITION = 32 << 20;
/** Maximum characters of the name (`d`) of a note. */
const LONGEST_NAME = 256;
/** Maximum characters of one note. */
const LONGEST_NOTE = 65_536;
/** Maximum ids in one request. */
export const IDS_PER_REQUEST = 64;

/** What a definition says about a note: enough to see whether an event deletes it. */
export interface NoteEntry extends Pick<SignedEvent, 'id' | 'pubkey' | 'created_at' | 'kind'> {
  /** Value of the `d` tag; empty without one. */
  readonly name: string;
}

export interface NotesCorpus {
  /** Merkle root over the entries. */
  readonly root: string;
  /** SHA-256 of the text, as a run spec names its corpus. */
  readonly text: string;
  /** In the order of the text. */
  readonly notes: readonly NoteEntry[];
  /** Authors with notes in it, and how many, ascending by key. */
  readonly authors: readonly { readonly key: string; readonly notes: number }[];
}

/** A corpus and its text. */
export interface OpenedCorpus {
  readonly corpus: NotesCorpus;
  readonly text: string;
}

/** Returns a filter for the notes of authors, and for what deletes them. */
export const notesFilters = (authors: readonly string[], kinds: readonly number[]): Filter => ({
  kinds: [...kinds, DELETION, VANISH],
  authors,
});

/** Returns a test for notes that none of these verified events deletes. Only the author of a note can delete it. */
function notDeletedBy(events: readonly SignedEvent[]): (note: NoteEntry) => boolean {
  const targets = new Map<string, number>();
  const vanished = new Map<string, number>();
  const keepLatest = (times: Map<string, number>, key: string, at: number) =>
    times.set(key, Math.max(at, times.get(key) ?? 0));
  for (const { kind, pubkey, created_at: at, tags } of events) {
    if (kind === VANISH) keepLatest(vanished, pubkey, at);
    if (kind !== DELETION) continue;
    for (const [name, target = ''] of tags) {
      if (name === 'e' || name === 'a') keepLatest(targets, `${pubkey} ${target}`, at);
    }
  }
  return ({ id, pubkey, kind, created_at: at, name }) => {
    const address = `${kind}:${pubkey}:${name}`;
    const isNamed = targets.has(`${pubkey} ${id}`);
    const isOlder = (until: number | undefined) => until !== undefined && at <= until;
    return (
      !isNamed && !isOlder(targets.get(`${pubkey} ${address}`)) && !isOlder(vanished.get(pubkey))
    );
  };
}

/** Returns the notes that these verified events delete, by position in the text, ascending. */
export function deletedNotes(
  { notes }: NotesCorpus,
  events: readonly SignedEvent[],
): readonly number[] {
  const isKept = notDeletedBy(events);
  return notes.flatMap((note, at) => (isKept(note) ? [] : [at]));
}

const entryOf = ({ id, pubkey, created_at, kind, tags }: SignedEvent): NoteEntry => {
  const name = tags.find(([first]) => first === 'd')?.[1] ?? '';
  return { id, pubkey, created_at, kind, name };
};

/** Returns what a note shares with those that it replaces: the address of an addressable note, else its own id. */
function slotOf(note: SignedEvent): string {
  const { id, kind, pubkey, name } = entryOf(note);
  return kind >= 30_000 && kind < 40_000 ? `${kind}:${pubkey}:${name}` : id;
}

/** Form of the text: a JSON object a line, which divides into notes for any tokenizer, or plain text. */
export type NotesForm = 'lines' | 'plain';

/** Defines a corpus from verified events: notes of the kinds, without deleted ones, oldest first, ties by id. */
export function defineNotes(
  events: readonly SignedEvent[],
  kinds: readonly number[],
  form: NotesForm = 'lines',
): OpenedCorpus {
  const isKept = notDeletedBy(events);
  const ofKinds = events.filter(({ kind }) => kinds.includes(kind));
  const notes = [...newestOf(ofKinds, slotOf).values()]
    .filter((event) => isKept(entryOf(event)) && isReadable(event))
    .sort((a, b) => a.created_at - b.created_at || (a.id < b.id ? -1 : 1))
    .slice(-MOST_NOTES);
  return openedFrom(notes, form);
}

const isReadable = (event: SignedEvent): boolean =>
  event.content.trim() !== '' &&
  event.content.length <= LONGEST_NOTE &&
  entryOf(event).name.length <= LONGEST_NAME;

const texts: Readonly<Record<NotesForm, (content: string) => string>> = {
  lines: (content) => `${JSON.stringify({ text: content.trim() })}\n`,
  plain: (content) => `${content.trim()}\n\n`,
};

function openedFrom(events: readonly SignedEvent[], form: NotesForm): OpenedCorpus {
  const text = events.map(({ content }) => texts[form](content)).join('');
  const notes = events.map(entryOf);
  const authors = authorsOf(notes);
  return { text, corpus: { root: rootOf(notes), text: sha256Hex(utf8(text)), notes, authors } };
}

function authorsOf(notes: readonly NoteEntry[]): NotesCorpus['authors'] {
  const counts = new Map<string, number>();
  for (const { pubkey } of notes) counts.set(pubkey, (counts.get(pubkey) ?? 0) + 1);
  return [...counts]
    .map(([key, count]) => ({ key, notes: count }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Returns the Merkle root over the hashes of entries. */
const rootOf = (notes: readonly NoteEntry[]): string =>
  merkleTree(notes.map((note) => fromHex(sha256Hex(utf8(canonicalJson({ ...note }))))!)).root;

/**
 * Rebuilds the text from verified events in any order. Refuses with the number of notes that are missing, or if the
 * events do not give the text that the definition names.
 */
export function rebuildNotes(
  { notes, root, text }: NotesCorpus,
  events: readonly SignedEvent[],
): Result<OpenedCorpus & { readonly form: NotesForm }> {
  const byId = new Map(events.map((event) => [event.id, event]));
  const stored = notes.flatMap(({ id }) => byId.get(id) ?? []);
  const missing = notes.length - stored.length;
  if (missing > 0)
    return refuse('notes-missing', 'notes', `${missing} of ${notes.length} notes are missing`);
  for (const form of ['lines', 'plain'] as const) {
    const opened = openedFrom(stored, form);
    const { corpus } = opened;
    if (corpus.root === root && corpus.text === text) return ok({ ...opened, form });
  }
  return refuse('notes-other', 'text', 'the notes give another text');
}

/** Formats a definition as canonical JSON. */
export const writeNotes = ({ root, text, notes }: NotesCorpus): string =>
  `${canonicalJson({ format: FORMAT, root, text, notes: notes.map((note) => ({ ...note })) })}\n`;

/** Parses an untrusted definition, and checks the notes against the root. */
export function parseNotes(text: string): Result<NotesCorpus> {
  if (text.length > LONGEST_DEFINITION)
    return refuse('too-large', 'notes', `${text.length} characters`);
  const json = parseJson(text.trimEnd());
  if (!json.ok) return json;
  const reader = new JsonReader(json.value);
  reader.text('format', (format) => format === FORMAT);
  const notes = reader.guarded('notes', areNotes, []);
  const corpus = { root: reader.hex32('root'), text: reader.hex32('text'), notes };
  const at = reader.problem;
  if (at !== undefined) return refuse('bad-notes', at, `\`${at}\` is malformed`);
  return rootOf(notes) === corpus.root
    ? ok({ ...corpus, authors: authorsOf(notes) })
    : refuse('bad-notes', 'root', 'the root is not that of the notes');
}

const isNote = shape({
  id: isHash,
  pubkey: isHash,
  created_at: isCount,
  kind: isWithin(0, 65_535),
  name: (name): name is string => typeof name === 'string' && name.length <= LONGEST_NAME,
});

const areNotes = (value: unknown): value is readonly NoteEntry[] =>
  listOf(isNote, MOST_NOTES, 1)(value) &&
  new Set(value.map(({ id }) => id)).size === value.length &&
  new Set(value.map(({ pubkey }) => pubkey)).size <= MOST_AUTHORS;
