/** Attestation (37813, addressable): a key confirms in which region and trust tier a holder is. */
import { canonicalObject, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { hex32, nostrain, one, pattern, seconds } from './_tags.ts';

const LONGEST_CONTENT = 256;
const word = pattern(
  /^[a-z0-9][a-z0-9._-]{0,31}$/,
  '1..32 of `a-z0-9._-`, beginning with a letter or digit',
);

const members = {
  region: optionalMember(word, 'where the holder is'),
  tier: optionalMember(word, 'its trust tier'),
};

/** 37813: a key confirms region and trust tier of a holder. */
export const attestation = defineKind({
  kind: 37813,
  name: 'attestation',
  summary: 'a key confirms in which region and trust tier a holder is',
  sent: 'by whoever vouches for holders, once per holder; a newer one replaces it',
  tags: {
    holder: one('d', hex32, 'the key of the holder: one attestation of it per key'),
    nostrain,
    expiration: one('expiration', seconds, 'until when it holds (NIP-40)'),
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    {
      says: 'it confirms something',
      holds: ({ region, tier }) => region !== undefined || tier !== undefined,
    },
  ],
  notes: `
It confirms what a holder says of itself (kind 37812) exactly as it says it, and counts for those
who name the signing key as an attestor. The content is canonical JSON, as a manifest's is.

<members>
`,
});
