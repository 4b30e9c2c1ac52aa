/** Attendee (37815, addressable): a key waits in a lobby for the start of its run, or asks to be let in later. */
import { canonicalObject, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { displayName, expiration, hex32, nostrain, one, pattern } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 512;

const members = {
  name: optionalMember(displayName, 'name of the attendee'),
  proof: optionalMember(hex32, 'proof that the attendee knows the secret of the lobby'),
  status: optionalMember(pattern(/^leaving$/, '`leaving`'), 'present when the attendee leaves'),
};

/** 37815: a key waits in a lobby for the start of its run, or asks to be let in later. */
export const attendee = defineKind({
  kind: 37815,
  name: 'attendee',
  summary: 'a key waits in a lobby for the start of its run, or asks to be let in later',
  sent: 'every 30 s while the attendee waits; a newer one replaces it',
  tags: {
    lobby: one(
      'd',
      pattern(/^[0-9a-f]{64}:[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/, '`<host>:<name>`'),
      'the lobby (kind 37814): key of its host and its name',
    ),
    nostrain,
    expiration,
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  notes: `
The attendee is the signing key. \`proof\` is the SHA-256 of the fields \`nostrain/attendee/1\`,
secret, lobby (as in \`d\`) and attendee, each as UTF-8 after its length as a little-endian u32. The
content is canonical JSON, like that of a manifest.

<members>
`,
});
