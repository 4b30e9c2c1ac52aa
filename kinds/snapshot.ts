/** Stake snapshot (7816, regular): the table of stakes by key at one block, or the root of its chunks. */
import { base64OrNothing } from './_content.ts';
import { defineKind } from './_define.ts';
import { chunkTags, inlineOrChunksRule } from './_shared.ts';
import { expiration, hex32, nostrain, one } from './_tags.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** Maximum bytes of a snapshot: 131,072 rows of 48 bytes, and 8,192 bytes of header. */
const MOST_BYTES = 6_299_648;

const notes = `
The event is content-addressed: its author and date do not matter, only that the SHA-256 of the
bytes is \`x\`. docs/stake.md describes the bytes. A snapshot of up to ${CHUNK_BYTES} bytes (about
930 rows) is the content. A larger one travels as chunks (kind 7811), sent before the event, which
then has an empty content and names their \`root\` and total \`bytes\`. Data from verified chunks is
the snapshot only if it hashes to \`x\`, since any key can name any root.
`;

/** 7816: the stake of each key at one block. */
export const snapshot = defineKind({
  kind: 7816,
  name: 'snapshot',
  summary: 'the stake of each key at one block',
  sent: 'when a run names it, and by any holder on request',
  tags: {
    nostrain,
    id: one('x', hex32, 'id of the snapshot: SHA-256 of its bytes'),
    ...chunkTags(MOST_BYTES, true),
    expiration,
  },
  content: base64OrNothing('data', 'the bytes of the snapshot'),
  rules: [
    inlineOrChunksRule(
      `a snapshot of at most ${CHUNK_BYTES} bytes is in the content; ` +
        'a larger one has `root` and `bytes` instead',
    ),
  ],
  notes,
});
