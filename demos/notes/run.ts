/**
 * `nostrain demo notes`: synthetic authors post notes on a relay, one deletes a note, and the rest become a corpus. A
 * second reader fetches it, and four workers fine-tune a model on its text.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, createRelaySet, createSigner, type SignedEvent, systemClock } from 'nostrain';
import { openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { withScope } from '../../src/base/async.ts';
import { dataHome } from '../../src/node/files/data-home.ts';
import { defineNotes, notesFilters, rebuildNotes } from '../../src/social/notes.ts';
import { writeNote } from '../../src/terminal/output.ts';
import type { DemoFlags } from '../shared/stage.ts';
import { runTrainingDemo } from '../train/run.ts';

const AUTHORS = 4;
const NOTES_EACH = 60;
const SECONDS_APART = 60;
const PLACES = ['harbour', 'orchard', 'library', 'workshop', 'market', 'garden', 'bridge'];
const DEEDS = ['counted the boats', 'mended a net', 'read aloud', 'planted a tree', 'baked bread'];
const MOODS = ['in the rain', 'before sunrise', 'with a friend', 'for an hour', 'without a plan'];

/** Returns synthetic notes of an author; each has one theme, so that authors differ. */
const notesOf = (author: number): readonly string[] =>
  Array.from({ length: NOTES_EACH }, (_, i) => {
    const pick = (list: readonly string[], step: number) => list[(author + i * step) % list.length];
    const lines = Array.from({ length: 6 }, (_, line) => {
      const step = line + 1;
      return `At the ${pick(PLACES, step)} I ${pick(DEEDS, step + 1)} ${pick(MOODS, step + 2)}.`;
    });
    return `Day ${i + 1}. ${lines.join(' ')}`;
  });

/** Runs the demo. Returns exit code 0 if the second reader has the same corpus, and all workers agree. */
export async function runNotesDemo(flags: DemoFlags): Promise<number> {
  const folder = join(dataHome(), 'demos', 'notes-corpus');
  await mkdir(folder, { recursive: true });
  const file = join(folder, 'notes.jsonl');
  await writeFile(file, await postAndFetch());
  return runTrainingDemo('finetune', { ...flags, corpus: file });
}

/** Posts the notes, defines the corpus, and returns the text as a second reader rebuilds it. */
const postAndFetch = (): Promise<string> =>
  withScope(async (scope) => {
    const relay = await createRelay();
    scope.defer(() => relay.close());
    const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
    scope.defer(() => relays.close());
    await relays.ready();
    const { signal } = new AbortController();
    const start = Math.floor(systemClock.now() / 1000) - NOTES_EACH * SECONDS_APART;
    const signers = Array.from({ length: AUTHORS }, (_, i) =>
      createSigner(new Uint8Array(32).fill(i + 1)),
    );
    const posted: SignedEvent[] = [];
    for (const [author, signer] of signers.entries()) {
      for (const [i, content] of notesOf(author).entries()) {
        const draft = { kind: 1, created_at: start + i * SECONDS_APART, tags: [], content };
        posted.push(signer.sign(draft));
      }
    }
    const deletion = signers[0]!.sign({
      kind: 5,
      created_at: Math.floor(systemClock.now() / 1000),
      tags: [['e', posted[0]!.id]],
      content: '',
    });
    for (const event of [...posted, deletion]) await relays.publish(event, { signal });
    const keys = signers.map(({ publicKey }) => publicKey);
    const read = async () => {
      const pages = keys.map((key) => ({ ...notesFilters([key], [1]), limit: 500 }));
      return (await relays.query(pages, { waitMs: 10_000, signal })).events;
    };
    const { corpus } = defineNotes(await read(), [1]);
    const rebuilt = rebuildNotes(corpus, [...(await read())].reverse());
    if (!rebuilt.ok) {
      throw new ConfigError('demo/notes', rebuilt.issue.message, { hint: 'run the demo again' });
    }
    writeNote(
      `${corpus.notes.length} of ${posted.length} notes of ${corpus.authors.length} authors, ` +
        `one deleted; root ${corpus.root.slice(0, 12)}…`,
    );
    return rebuilt.value.text;
  });
