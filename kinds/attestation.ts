/** Attestation (37813, addressable): a key confirms the region and trust tier of a holder. */
import { canonicalObject, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { hex32, nostrain, one, pattern, seconds } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 256;
const word = pattern(
  /^[a-z0-9][a-z0-9._-]{0,31}$/,
  '1..32 of `a-z0-9._-`, beginning with a letter or digit',
);

const members = {
  region: optionalMember(word, 'region of the holder'),
  tier: optionalMember(word, 'trust tier of the holder'),
};

/** 37813: a key confirms the region and trust tier of a holder. */
export const attestation = defineKind({
  kind: 37813,
  name: 'attestation',
  summary: 'a key confirms the region and trust tier of a holder',
  sent: 'by an attestor, once per holder; a newer one replaces it',
  tags: {
    holder: one('d', hex32, 'key of the holder: one attestation per holder and attestor'),
    nostrain,
    expiration: one('expiration', seconds, 'until when the attestation is valid (NIP-40)'),
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    {
      says: 'at least one of `region` and `tier` is present',
      holds: ({ region, tier }) => region !== undefined || tier !== undefined,
    },
  ],
  notes: `
An attestation confirms what a holder reports about itself (kind 37812) if both values are equal.
It counts for readers that list the signing key as an attestor. The content is canonical JSON, like
that of a manifest.

<members>
`,
});
