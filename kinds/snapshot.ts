/** Stake snapshot (7816, regular): the table of stakes by key at one block, or where its chunks are. */
import { base64OrNothing } from './_content.ts';
import { defineKind } from './_define.ts';
import { chunkTags, inlineOrChunksRule } from './_shared.ts';
import { expiration, hex32, nostrain, one } from './_tags.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** 131,072 rows of 48 bytes, and 8,192 for what stands before them. */
const MOST_BYTES = 6_299_648;

const notes = `
Content-addressed: who signed the event and when does not matter, only that SHA-256 of the bytes is
\`x\`. The bytes are those of docs/stake.md. ${CHUNK_BYTES} of them are about 930 rows and are the
content. A larger snapshot travels as chunks (kind 7811), sent before the event, which then names
their \`root\` and all their \`bytes\` and has no content. What is put together from verified chunks
is the snapshot only if it hashes to \`x\`: anybody can name any root.
`;

/** 7816: who had how much at stake at one block. */
export const snapshot = defineKind({
  kind: 7816,
  name: 'snapshot',
  summary: 'who had how much at stake at one block',
  sent: 'when a run names it, and by any holder when asked',
  tags: {
    nostrain,
    id: one('x', hex32, 'id of the snapshot: SHA-256 of its bytes'),
    ...chunkTags(MOST_BYTES, true),
    expiration,
  },
  content: base64OrNothing('data', 'the bytes of the snapshot'),
  rules: [
    inlineOrChunksRule(
      `a snapshot of at most ${CHUNK_BYTES} bytes is the content, ` +
        'and a larger one is not but has `root` and `bytes`',
    ),
  ],
  notes,
});
