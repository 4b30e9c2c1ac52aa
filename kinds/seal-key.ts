/** Sealing key (37816, addressable): the X25519 key to which others may encrypt data for the author. */
import { canonicalObject, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { hex32, nostrain, one, pattern } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 256;

const members = {
  x25519: member(hex32, 'public key (RFC 7748)'),
};

/** 37816: the X25519 key to which others may encrypt data for the author. */
export const sealKey = defineKind({
  kind: 37816,
  name: 'seal-key',
  summary: 'the X25519 key to which others may encrypt data for the author',
  sent: 'when the key is made; a newer one replaces it',
  tags: {
    use: one('d', pattern(/^shards$/, '`shards`'), 'what the key is for'),
    nostrain,
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  notes: `
The owner is the signing key, which is never used for encryption. The content is canonical JSON,
like that of a manifest.

<members>
`,
});
