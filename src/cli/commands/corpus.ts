/** `nostrain corpus`: makes a corpus of the notes of Nostr authors, and fetches one that another user defined. */

import { ConfigError } from '../../base/errors.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { toNpub } from '../../node/files/keys.ts';
import { MOST_NOTES } from '../../run/spec/feature-fields.ts';
import {
  defineNotes,
  IDS_PER_REQUEST,
  MOST_AUTHORS,
  type NotesCorpus,
  notesFilters,
  rebuildNotes,
  writeNotes,
} from '../../social/notes.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import { severalOr, text, withDefault } from '../../terminal/flag-table.ts';
import { writeNote, writeOut, writeOutput } from '../../terminal/output.ts';
import { NOTES_WAIT_MS, readDeleted, readNotes } from '../shared/notes.ts';
import { withRelays } from '../shared/with-relays.ts';
import { typedKey } from '../shared/worker-flag.ts';

const readingFlags = {
  text: text('<file>', 'file for the text (default: notes.jsonl; a .txt file is plain, for tabs)'),
  relay: severalOr('none', '<url>', 'relay to read from, repeatable'),
  ...connectionFlags,
};

const defineCorpus = defineCommand({
  name: 'nostr',
  help: 'define a corpus: the notes of these authors, as event ids under one Merkle root',
  flags: {
    authors: severalOr('none', '<npub>', 'author whose notes to take, repeatable'),
    kinds: withDefault(text('<list>', 'kinds of notes, separated by commas'), '1,30023'),
    output: { ...withDefault(text('<file>', 'file for the definition'), 'notes.json'), short: 'o' },
    ...readingFlags,
  },
  async run(flags, { signal }) {
    const authors = flags.authors.map((author) => typedKey(author, 'flag/authors'));
    const kinds = flags.kinds.split(',').map(Number);
    const isGood = kinds.every((kind) => Number.isInteger(kind) && kind >= 0 && kind < 65_536);
    if (authors.length === 0 || authors.length > MOST_AUTHORS || !isGood) {
      throw new ConfigError('flag/authors', `name 1 to ${MOST_AUTHORS} authors, and kinds`, {
        hint: 'as in --authors npub1… --kinds 1,30023',
      });
    }
    const reach = { connection: connectionOf(flags), signal };
    const events = await withRelays(flags.relay, reach, ({ relays }) =>
      readAuthors(relays, authors, kinds, signal),
    );
    const file = flags.text ?? 'notes.jsonl';
    const form = file.endsWith('.jsonl') ? 'lines' : 'plain';
    const opened = defineNotes(events, kinds, form);
    if (opened.corpus.notes.length === 0) {
      throw new ConfigError('corpus/empty', 'these relays have no notes of these authors', {
        hint: 'name the relays that they write to with --relay',
      });
    }
    await writeOutput(flags.output, writeNotes(opened.corpus));
    await writeOutput(file, opened.text);
    writeOut(describe(opened.corpus));
  },
});

const fetchCorpus = defineCommand({
  name: 'fetch',
  help:
    'fetch the notes of a definition, check them, and say which their authors have ' +
    'deleted since',
  args: [['<file>', 'definition that `nostrain corpus nostr` wrote']],
  flags: readingFlags,
  async run(flags, { args: [file], signal }) {
    const corpus = await readNotes(file);
    const reach = { connection: connectionOf(flags), signal };
    await withRelays(flags.relay, reach, async ({ relays }) => {
      for (const at of await readDeleted(relays, corpus, signal)) {
        const { id, pubkey } = corpus.notes[at]!;
        writeNote(`deleted by ${toNpub(pubkey)}: ${id}; leave it out of your next corpus`);
      }
      const opened = rebuildNotes(corpus, await readIds(relays, corpus, signal));
      if (!opened.ok) {
        throw new ConfigError('corpus/incomplete', opened.issue.message, {
          hint: 'name more relays with --relay, or define the corpus again',
        });
      }
      const name = opened.value.form === 'lines' ? 'notes.jsonl' : 'notes.txt';
      await writeOutput(flags.text ?? name, opened.value.text);
      writeOut(describe(opened.value.corpus));
    });
  },
});

const describe = ({ root, text: sha256, notes: entries, authors }: NotesCorpus): string =>
  [
    `root     ${root}`,
    `sha256   ${sha256}`,
    `notes    ${entries.length}`,
    ...authors.map(({ key, notes }) => `  ${toNpub(key)}  ${notes}`),
    '',
  ].join('\n');

/** Events of a page: relays return at most this many. */
const PAGE = 500;

/** Reads the notes and deletions of each author, page by page back in time. */
async function readAuthors(
  relays: RelaySet,
  authors: readonly string[],
  kinds: readonly number[],
  signal: AbortSignal,
): Promise<readonly SignedEvent[]> {
  const events = new Map<string, SignedEvent>();
  for (const author of authors) {
    let until: number | undefined;
    for (;;) {
      const before = events.size;
      const filter = { ...notesFilters([author], kinds), limit: PAGE };
      const page = until === undefined ? filter : { ...filter, until };
      const { events: got } = await relays.query([page], { waitMs: NOTES_WAIT_MS, signal });
      for (const event of got) events.set(event.id, event);
      // a page that brings nothing new ends the search: more events than a page in one second are not read
      if (events.size === before || events.size > MOST_NOTES) break;
      until = Math.min(...got.map(({ created_at }) => created_at));
    }
  }
  return [...events.values()];
}

async function readIds(
  relays: RelaySet,
  { notes }: NotesCorpus,
  signal: AbortSignal,
): Promise<readonly SignedEvent[]> {
  const ids = notes.map(({ id }) => id);
  const events: SignedEvent[] = [];
  for (let from = 0; from < ids.length; from += IDS_PER_REQUEST) {
    const filter = { ids: ids.slice(from, from + IDS_PER_REQUEST) };
    const { events: got } = await relays.query([filter], { waitMs: NOTES_WAIT_MS, signal });
    events.push(...got);
  }
  return events;
}

export const corpus = defineGroup('corpus', 'train on notes of Nostr authors', [
  defineCorpus,
  fetchCorpus,
]);
