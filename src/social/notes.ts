/**
 * A corpus of notes: events of chosen authors, as ids under one Merkle root, so that all who fetch them train on the
 * same bytes. Events that their authors deleted (NIP-09), or that a request to vanish covers (NIP-62), are left out.
 */

import { fromHex, utf8 } from '../base/bytes.ts';
import { canonicalJson, type Json, parseJson } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import { merkleTree } from '../base/merkle.ts';
import { isHash, isWithin, listOf, shape } from '../base/shape.ts';
import type { SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';
import { JsonReader } from '../run/json-reader.ts';

const DELETION = 5;
const VANISH = 62;
const FORMAT = 'nostrain/notes/1';
/** Maximum authors and notes of a corpus; a definition with as many is below 8 MiB. */
export const MOST_AUTHORS = 256;
export const MOST_NOTES = 100_000;
const LONGEST_DEFINITION = 8 << 20;
/** Maximum characters of one note. */
const LONGEST_NOTE = 65_536;
/** Maximum ids in one request. */
export const IDS_PER_REQUEST = 64;

export interface NotesCorpus {
  /** Merkle root over the ids, in the order of the text. */
  readonly root: string;
  /** SHA-256 of the text, as a run spec names its corpus. */
  readonly text: string;
  readonly ids: readonly string[];
  /** Authors with notes in it, and how many, ascending by key. */
  readonly authors: readonly { readonly key: string; readonly notes: number }[];
}

/** A corpus and its text. */
export interface OpenedCorpus {
  readonly corpus: NotesCorpus;
  readonly text: string;
}

/** Returns filters for the notes of authors, and for what deletes them. */
export const notesFilters = (authors: readonly string[], kinds: readonly number[]): Filter => ({
  kinds: [...kinds, DELETION, VANISH],
  authors,
});

/** Returns a filter for requests of these authors to delete notes. */
export const deletionsFilter = (authors: readonly string[]): Filter => ({
  kinds: [DELETION, VANISH],
  authors,
});

/** Reports whether an event asks to delete others. */
export const isDeletion = ({ kind }: SignedEvent): boolean => kind === DELETION || kind === VANISH;

/** Returns a test for notes that none of these verified events deletes. Only the author of a note can delete it. */
export function notDeletedBy(events: readonly SignedEvent[]): (note: SignedEvent) => boolean {
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
  return ({ id, pubkey, kind, created_at: at, tags }) => {
    const address = `${kind}:${pubkey}:${tags.find(([name]) => name === 'd')?.[1] ?? ''}`;
    const isNamed = targets.has(`${pubkey} ${id}`);
    const isOlder = (until: number | undefined) => until !== undefined && at <= until;
    return (
      !isNamed && !isOlder(targets.get(`${pubkey} ${address}`)) && !isOlder(vanished.get(pubkey))
    );
  };
}

/** Reports whether of several events with one address only the newest counts (NIP-01). */
const isAddressable = (kind: number): boolean => kind >= 30_000 && kind < 40_000;

/** Returns the newest version of each note: an addressable one replaces those before it; ties go to the lowest id. */
function newestOf(notes: readonly SignedEvent[]): readonly SignedEvent[] {
  const newest = new Map<string, SignedEvent>();
  for (const note of notes) {
    const { id, kind, pubkey, tags, created_at: at } = note;
    const name = tags.find(([first]) => first === 'd')?.[1] ?? '';
    const slot = isAddressable(kind) ? `${kind}:${pubkey}:${name}` : id;
    const known = newest.get(slot);
    const isNewer = !known || at > known.created_at || (at === known.created_at && id < known.id);
    if (isNewer) newest.set(slot, note);
  }
  return [...newest.values()];
}

/** Defines a corpus from verified events: notes of the kinds, without deleted ones, oldest first, ties by id. */
export function defineNotes(
  events: readonly SignedEvent[],
  kinds: readonly number[],
): OpenedCorpus {
  const isKept = notDeletedBy(events);
  const notes = newestOf(events.filter((event) => kinds.includes(event.kind)))
    .filter((event) => isKept(event) && isReadable(event))
    .sort((a, b) => a.created_at - b.created_at || (a.id < b.id ? -1 : 1))
    .slice(-MOST_NOTES);
  return openedFrom(notes);
}

const isReadable = ({ content }: SignedEvent): boolean =>
  content.trim() !== '' && content.length <= LONGEST_NOTE;

function openedFrom(notes: readonly SignedEvent[]): OpenedCorpus {
  const text = notes.map(({ content }) => `${content.trim()}\n\n`).join('');
  const counts = new Map<string, number>();
  for (const { pubkey } of notes) counts.set(pubkey, (counts.get(pubkey) ?? 0) + 1);
  const authors = [...counts]
    .map(([key, count]) => ({ key, notes: count }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const ids = notes.map(({ id }) => id);
  return { text, corpus: { root: rootOf(ids), text: sha256Hex(utf8(text)), ids, authors } };
}

/** Returns the Merkle root over ids. */
const rootOf = (ids: readonly string[]): string => merkleTree(ids.map((id) => fromHex(id)!)).root;

/**
 * Rebuilds the text from verified events in any order. Refuses with the number of notes that are missing, or if the
 * events do not give the text that the definition names.
 */
export function rebuildNotes(
  { ids, root, text }: NotesCorpus,
  events: readonly SignedEvent[],
): Result<OpenedCorpus> {
  const byId = new Map(events.map((event) => [event.id, event]));
  const notes = ids.flatMap((id) => byId.get(id) ?? []);
  const missing = ids.length - notes.length;
  if (missing > 0)
    return refuse('notes-missing', 'ids', `${missing} of ${ids.length} notes are missing`);
  const opened = openedFrom(notes);
  const isSame = opened.corpus.root === root && opened.corpus.text === text;
  return isSame ? ok(opened) : refuse('notes-other', 'text', 'the notes give another text');
}

/** Formats a definition as canonical JSON. */
export const writeNotes = (corpus: NotesCorpus): string =>
  `${canonicalJson({ format: FORMAT, ...corpus } as unknown as Json)}\n`;

/** Parses an untrusted definition, and checks the ids against the root. */
export function parseNotes(text: string): Result<NotesCorpus> {
  if (text.length > LONGEST_DEFINITION)
    return refuse('too-large', 'notes', `${text.length} characters`);
  const json = parseJson(text.trimEnd());
  if (!json.ok) return json;
  const reader = new JsonReader(json.value);
  reader.text('format', (format) => format === FORMAT);
  const corpus: NotesCorpus = {
    root: reader.hex32('root'),
    text: reader.hex32('text'),
    ids: reader.guarded('ids', areIds, []),
    authors: reader.guarded('authors', areAuthors, []).map(({ key, notes }) => ({ key, notes })),
  };
  const at = reader.problem;
  if (at !== undefined) return refuse('bad-notes', at, `\`${at}\` is malformed`);
  return rootOf(corpus.ids) === corpus.root
    ? ok(corpus)
    : refuse('bad-notes', 'root', 'the root is not that of the ids');
}

const areIds = (value: unknown): value is readonly string[] =>
  listOf(isHash, MOST_NOTES, 1)(value) && new Set(value).size === value.length;

const areAuthors = listOf(shape({ key: isHash, notes: isWithin(0, MOST_NOTES) }), MOST_AUTHORS);
