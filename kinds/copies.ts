/** Copies (7815, regular): signed events of other keys that decided a round, for when their authors delete them. */
import { base64OrNothing } from './_content.ts';
import { defineKind } from './_define.ts';
import { chunkTags, inlineOrChunksRule } from './_shared.ts';
import { expiration, nostrain, repeats } from './_tags.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** As many bytes as the largest outcome may have. */
export const MAX_ARCHIVED_VOTES_BYTES = 4_194_304;

const notes = `
A relay gives up an event when its author asks it to (NIP-09, NIP-62) and when its time is over
(NIP-40). Copies are the same events, whole and with their signatures, as the bytes of an event of
another key: who reads them checks ids and signatures as if a relay had sent them, so it does not
matter who copied.

The bytes are a JSON array of events in UTF-8, each an object of the seven members of NIP-01,
ascending by id: the proposal of the outcome that decided the round, a quorum of its commits, and
the fault proofs and view-change votes that both name. The chunks of a proposal or proof that has
its body apart are sent again by the same key (kind 7811). ${CHUNK_BYTES} bytes are the content;
more travel as chunks, sent before the event, which then names their \`root\` and all their
\`bytes\` and has no content. Readers ask for copies by members of the run only.
`;

/** 7815: events that decided a round, kept by another key. */
export const archivedVotes = defineKind({
  kind: 7815,
  name: 'copies',
  summary: 'events that decided a round, kept by another key',
  sent: 'by three members of the committee once the round is decided; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats('s', '`<run>` and `<run>/<round>`', 'run and round that the events are of'),
    ...chunkTags(MAX_ARCHIVED_VOTES_BYTES, false),
    expiration,
  },
  content: base64OrNothing('data', 'the events'),
  rules: [
    inlineOrChunksRule(
      `copies of at most ${CHUNK_BYTES} bytes are the content, ` +
        'and larger ones are not but have `root` and `bytes`',
    ),
    {
      says: '`s` is a run, then that run and a round',
      holds: ({ scope: [run = '', inRun = '', ...more] }) =>
        more.length === 0 && /^[0-9a-f]{64}$/.test(run) && inRun.startsWith(`${run}/`),
    },
  ],
  notes,
});
