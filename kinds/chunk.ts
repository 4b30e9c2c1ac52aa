/** Chunk (7811, regular): 44 KiB of data too large for one event, with a Merkle proof. */
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

/** Bytes of every chunk except the last, which has the rest. */
export const CHUNK_BYTES = 45_056;
/** Maximum number of chunks of a payload; hence at most 16 hashes in a path. */
export const MAX_CHUNKS = 65_536;
/** Maximum number of hashes in a path: log2 of `MAX_CHUNKS`. */
const LONGEST_PATH = 16;

const notes = `
Chunks carry the payloads of manifests, the bodies of proposals and fault proofs, and the states
that checkpoints name.

A chunk is content-addressed: the author and the date of the event do not matter. \`<x:16>\` in
\`c\` stands for the first 16 digits of \`x\`; readers query single chunks with \`#c\`.

A payload of \`bytes\` bytes is cut into \`count\` chunks of ${CHUNK_BYTES} bytes; the last one
has the rest. \`x\` follows from them by SHA-256, with ASCII texts and little-endian integers:

\`\`\`text
leaf    = sha256("nostrain:leaf:" | chunk)
node    = sha256("nostrain:node:" | left | right)
root    = sha256("nostrain:root:" | u32 count | u64 bytes | top)
\`\`\`

Neighbours are joined level by level; the last node of an odd level moves up unchanged, never joined
with itself (the tree of RFC 6962 section 2.1). \`top\` is the last node. \`path\` lists the
neighbours on the way from the leaf to the top, the lowest first; a level at which the node has no
neighbour adds nothing. \`path\` is absent if there is only one chunk.
`;

/** 7811: a part of a large payload, with a Merkle proof. */
export const chunk = defineKind({
  kind: 7811,
  name: 'chunk',
  summary: 'a part of a large payload, with a Merkle proof',
  sent: 'before the event that names its root, and by any holder on request',
  tags: {
    nostrain,
    root: one('x', hex32, 'Merkle root of the payload, below'),
    key: derived('c', 'key for queries', '<x:16>/<index>'),
    index: one('index', index, 'index of the chunk, from 0'),
    count: one('count', integer(1, MAX_CHUNKS), 'number of chunks of the payload'),
    bytes: one('bytes', integer(1, CHUNK_BYTES * MAX_CHUNKS), 'length of the whole payload'),
    // with equal chunks the same hash may be a neighbour at two levels
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
      says: `the content has ${CHUNK_BYTES} bytes, in the last chunk the rest`,
      holds: ({ index, bytes, data }) =>
        base64Bytes(data) === Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES),
    },
  ],
  notes,
});
