/** Copies (7815, regular): an archive of the signed events that decided a round, in case their authors delete them. */
import { base64OrNothing } from './_content.ts';
import { defineKind } from './_define.ts';
import { chunkTags, inlineOrChunksRule } from './_shared.ts';
import { expiration, nostrain, repeats } from './_tags.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** Maximum bytes of the copied events: the same as of the largest outcome. */
export const MAX_ARCHIVED_VOTES_BYTES = 4_194_304;

const notes = `
A relay deletes an event at its author's request (NIP-09, NIP-62) and when it expires (NIP-40).
Copies are the same events, complete and with their signatures, inside an event of another key. A
reader checks ids and signatures as if a relay had sent the events, so the author of the copies does
not matter.

The data is a JSON array of events in UTF-8, each an object with the seven members of NIP-01,
ascending by id: the proposal of the outcome that decided the round, a quorum of its commits, and
the fault proofs and view-change votes that these name. If a proposal or proof has its body in
chunks, the same key sends these chunks (kind 7811) again. Data of up to ${CHUNK_BYTES} bytes is the
content. Larger data travels as chunks, sent before the event, which then has an empty content and
names their \`root\` and total \`bytes\`. Readers query copies only from members of the run.
`;

/** 7815: copies of the events that decided a round, signed by another key. */
export const archivedVotes = defineKind({
  kind: 7815,
  name: 'copies',
  summary: 'copies of the events that decided a round, signed by another key',
  sent: 'by three members of the committee after the round is decided; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats('s', '`<run>` and `<run>/<round>`', 'run and round of the events'),
    ...chunkTags(MAX_ARCHIVED_VOTES_BYTES, false),
    expiration,
  },
  content: base64OrNothing('data', 'the events'),
  rules: [
    inlineOrChunksRule(
      `copies of at most ${CHUNK_BYTES} bytes are in the content; ` +
        'larger ones have `root` and `bytes` instead',
    ),
    {
      says: '`s` is there twice: a run, then that run and a round',
      holds: ({ scope: [run = '', inRun = '', ...more] }) =>
        more.length === 0 && /^[0-9a-f]{64}$/.test(run) && inRun.startsWith(`${run}/`),
    },
  ],
  notes,
});
