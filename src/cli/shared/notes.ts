/** A corpus of notes in commands: reads its definition, and asks relays what its authors deleted. */
import { stat } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { JoinPorts } from '../../node/join/join-run.ts';
import type { RelayReach } from '../../node/net/relays.ts';
import { deletedNotes, type NotesCorpus, notesFilters, parseNotes } from '../../social/notes.ts';
import { writeNote } from '../../terminal/output.ts';
import { readText } from './files.ts';
import { withRelays } from './with-relays.ts';

/** Milliseconds to wait for a page of events. */
export const NOTES_WAIT_MS = 15_000;

/** Reads a definition. Throws `corpus/file` if it is malformed, or not of this text. */
export async function readNotes(file: string, sha256?: string): Promise<NotesCorpus> {
  const parsed = parseNotes(await readText(file, 'corpus/file'));
  const isOther = sha256 !== undefined && parsed.ok && parsed.value.text !== sha256;
  if (parsed.ok && !isOther) return parsed.value;
  const why = parsed.ok ? 'it does not define the corpus of this run' : parsed.issue.message;
  throw new ConfigError('corpus/file', `${file}: ${why}`, {
    hint: 'give the file that `nostrain corpus nostr` wrote',
  });
}

/** Returns the notes that their authors asked these relays to delete since the corpus was defined, by position. */
export async function readDeleted(
  relays: RelaySet,
  corpus: NotesCorpus,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const keys = corpus.authors.map(({ key }) => key);
  const { events } = await relays.query([notesFilters(keys, [])], {
    waitMs: NOTES_WAIT_MS,
    signal,
  });
  return deletedNotes(corpus, events);
}

/** Returns the reader of deletions for a joiner whose text, such as `notes.jsonl`, has its definition next to it. */
export const deletionsNextTo =
  (connection: RelayReach['connection']): NonNullable<JoinPorts['deletedNotes']> =>
  async ({ notes, data }, corpus, { relays, publicOnly, signal }) => {
    if (notes === '') return undefined;
    if (corpus !== undefined && !corpus.endsWith('.jsonl')) {
      throw new ConfigError('corpus/file', `${corpus} is not a .jsonl file with a note a line`, {
        hint: 'run `nostrain corpus fetch notes.json`, then join with --corpus notes.jsonl',
      });
    }
    const file = `${corpus ?? 'notes'}`.replace(/\.\w+$/, '') + '.json';
    if (!(await stat(file).catch(() => undefined))) {
      writeNote(`${file} is missing, so this worker does not look for deletions of notes`);
      return undefined;
    }
    const read = await readNotes(file, data.kind === 'corpus' ? data.sha256 : undefined);
    const reach = { connection: { ...connection, publicOnly }, signal };
    return () => withRelays(relays, reach, (opened) => readDeleted(opened.relays, read, signal));
  };
