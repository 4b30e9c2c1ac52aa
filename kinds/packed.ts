/** Packed file (7819, regular): the manifest of a file in chunks, or the root of the manifest's own chunks. */
import { base64OrNothing } from './_content.ts';
import { defineKind } from './_define.ts';
import { chunkTags, inlineOrChunksRule } from './_shared.ts';
import { expiration, hex32, nostrain, one } from './_tags.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** Maximum bytes of a manifest. */
const MOST_BYTES = 2 ** 22 * 10;

const notes = `
The event is content-addressed: its author and date do not matter, only that the SHA-256 of the
manifest is \`x\`. docs/checkpoints.md describes the manifest; by its \`root\` readers query the
chunks (kind 7811) of the file. A manifest of up to ${CHUNK_BYTES} bytes (about 330 chunks) is the
content. A longer one travels as chunks itself, sent before the event, which then has an empty
content and names their \`root\` and total \`bytes\`. Data from verified chunks is the manifest only
if it hashes to \`x\`, since any key can name any root.
`;

/** 7819: the manifest of a file in chunks. */
export const packed = defineKind({
  kind: 7819,
  name: 'packed',
  summary: 'the manifest of a file whose chunks are on relays and elsewhere',
  sent: 'after the chunks of the file, and by any holder on request',
  tags: {
    nostrain,
    id: one('x', hex32, 'digest of the file: SHA-256 of the manifest'),
    ...chunkTags(MOST_BYTES, true),
    expiration,
  },
  content: base64OrNothing('data', 'the bytes of the manifest'),
  rules: [
    inlineOrChunksRule(
      `a manifest of at most ${CHUNK_BYTES} bytes is in the content; ` +
        'a larger one has `root` and `bytes` instead',
    ),
  ],
  notes,
});
