/**
 * Stake snapshot (7816, regular): the table of who had how much at stake at one block, whole.
 * Sent by whoever has it when a run names its id and somebody may lack it; anybody may send it again under their own key.
 */
import { base64 } from './_content.ts';
import { defineKind } from './_define.ts';
import { nostrain, one } from './_tags.ts';
import { base64Bytes, hex32, seconds } from './_text.ts';
import { CHUNK_BYTES } from './chunk.ts';

const notes = `
Content-addressed: who signed the event and when does not matter, only that SHA-256 of the bytes is \`x\`. The bytes are those
of docs/stake.md. ${CHUNK_BYTES} of them are about 930 rows; a larger snapshot does not travel as an event yet and is handed on as
a file.
`;

export const snapshot = defineKind({
  kind: 7816,
  name: 'snapshot',
  summary: 'who had how much at stake at one block',
  sent: 'when a run names it, and by any holder when asked',
  tags: {
    nostrain,
    id: one('x', hex32, 'id of the snapshot: SHA-256 of the content'),
    expiration: one('expiration', seconds, 'when relays may forget it (NIP-40)'),
  },
  content: base64('data', 'the bytes of the snapshot'),
  rules: [
    {
      says: `the content is at most ${CHUNK_BYTES} bytes`,
      holds: ({ data }) => base64Bytes(data) <= CHUNK_BYTES,
    },
  ],
  notes,
});
