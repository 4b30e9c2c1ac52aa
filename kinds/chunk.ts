/** Chunk (7811, regular): 44 KiB of a payload too large for one event, with the proof that it belongs there. */
import { base64 } from './_content.ts';
import { defineKind } from './_define.ts';
import {
  base64Bytes,
  derived,
  expiration,
  hex32,
  index,
  integer,
  list,
  nostrain,
  one,
} from './_tags.ts';

/** Bytes of every chunk but the last, which has the rest. */
export const CHUNK_BYTES = 45_056;
/** Chunks of the largest payload there can be; hence at most 16 hashes in a path. */
export const MAX_CHUNKS = 65_536;
const LONGEST_PATH = 16;

const notes = `
Payloads of manifests travel so, bodies of proposals and fault proofs, and states that checkpoints
name.

A chunk is content-addressed: who signed the event and when does not matter. \`<x:16>\` in \`c\`
stands for the first 16 digits of \`x\`, and readers ask for exact chunks with \`#c\`.

A payload of \`bytes\` bytes is cut into \`count\` chunks of ${CHUNK_BYTES} bytes, the last one
having what is left. \`x\` follows from them by SHA-256, texts being ASCII and integers
little-endian:

\`\`\`text
leaf    = sha256("nostrain:leaf:" | chunk)
node    = sha256("nostrain:node:" | left | right)
root    = sha256("nostrain:root:" | u32 count | u64 bytes | top)
\`\`\`

Neighbours are joined level by level; the last node of an odd level moves up as it is, never joined
with itself (the tree of RFC 6962 section 2.1). \`top\` is what remains. \`path\` has the neighbours
met on the way from the leaf to the top, the lowest first; a level at which the node has no
neighbour adds nothing. It is left out when there is only one chunk.
`;

/** 7811: a piece of a large payload and the proof that it belongs there. */
export const chunk = defineKind({
  kind: 7811,
  name: 'chunk',
  summary: 'a piece of a large payload and the proof that it belongs there',
  sent: 'before the event that names its root, and by any holder when asked',
  tags: {
    nostrain,
    root: one('x', hex32, 'root of the payload, below'),
    key: derived('c', 'what readers ask for', '<x:16>/<index>'),
    index: one('index', index, 'which chunk this is, from 0'),
    count: one('count', integer(1, MAX_CHUNKS), 'chunks of the payload'),
    bytes: one('bytes', integer(1, CHUNK_BYTES * MAX_CHUNKS), 'bytes of the whole payload'),
    // equal chunks may be neighbours at two heights
    path: list('path', hex32, 'from the leaf to the root, below', LONGEST_PATH, true),
    expiration,
  },
  content: base64('data', 'the bytes of this chunk'),
  rules: [
    { says: 'index is below count', holds: ({ index, count }) => index < count },
    {
      says: `count is bytes / ${CHUNK_BYTES}, rounded up`,
      holds: ({ count, bytes }) => count === Math.ceil(bytes / CHUNK_BYTES),
    },
    {
      says: `the content is ${CHUNK_BYTES} bytes, or what is left for the last chunk`,
      holds: ({ index, bytes, data }) =>
        base64Bytes(data) === Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES),
    },
  ],
  notes,
});
