/** Packed file (7819, regular): the manifest of a file in chunks, or where the chunks of the manifest are. */
import { base64OrNothing } from './_content.ts';
import { defineKind } from './_define.ts';
import { chunkTags, inlineOrChunksRule } from './_shared.ts';
import { expiration, hex32, nostrain, one } from './_tags.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** The longest manifest. */
const MOST_BYTES = 2 ** 22 * 10;

const notes = `
Content-addressed: who signed the event and when does not matter, only that SHA-256 of the manifest
is \`x\`. The manifest is that of docs/checkpoints.md; its \`root\` is the one by which the chunks
(kind 7811) of the whole file are asked for. ${CHUNK_BYTES} bytes of it are about 330 chunks and are
the content. A longer one travels as chunks itself, sent before the event, which then names their
\`root\` and all their \`bytes\` and has no content. What is put together from verified chunks is
the manifest only if it hashes to \`x\`: anybody can name any root.
`;

/** 7819: the manifest of a file in chunks. */
export const packed = defineKind({
  kind: 7819,
  name: 'packed',
  summary: 'the manifest of a file whose chunks lie on relays and elsewhere',
  sent: 'once the chunks of the file are out, and by any holder when asked',
  tags: {
    nostrain,
    id: one('x', hex32, 'digest of the file: SHA-256 of the manifest'),
    ...chunkTags(MOST_BYTES, true),
    expiration,
  },
  content: base64OrNothing('data', 'the bytes of the manifest'),
  rules: [
    inlineOrChunksRule(
      `a manifest of at most ${CHUNK_BYTES} bytes is the content, ` +
        'and a larger one is not but has `root` and `bytes`',
    ),
  ],
  notes,
});
