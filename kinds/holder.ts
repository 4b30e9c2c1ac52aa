/** Holder (37812, addressable): a key offers storage for chunks and announces its addresses. */
import { canonicalObject, listMember, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { hex32, integer, many, nostrain, one, pattern, seconds } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 4096;
/** Maximum number of addresses of a holder. */
const MOST_CONTACTS = 4;
/** Maximum number of objects in an announcement: the event fits every relay, and several fit one directory answer. */
const MAX_OBJECTS = 64;
const word = pattern(
  /^[a-z0-9][a-z0-9._-]{0,31}$/,
  '1..32 of `a-z0-9._-`, beginning with a letter or digit',
);
const contact = pattern(
  /^https?:\/\/[a-z0-9.-]{1,253}(?::[1-9][0-9]{0,4})?(?:\/[A-Za-z0-9._~-]{1,64}){0,4}$/,
  'an `http` or `https` address without user, query and trailing slash',
);

const members = {
  contacts: listMember(contact, 'addresses of its holder server, best first', MOST_CONTACTS),
  region: member(word, 'its region'),
  tier: member(word, 'its trust tier'),
  classes: listMember(word, 'classes of objects it accepts; absent if it accepts all', 16),
  weight: member(
    integer(0, 1_000_000),
    'its share of the objects, relative to other holders; 0 accepts no more objects',
  ),
  free: member(
    integer(0, Number.MAX_SAFE_INTEGER),
    'bytes of one object that it can store, deleting older ones',
  ),
};

/** 37812: a key offers storage for chunks. */
export const holder = defineKind({
  kind: 37812,
  name: 'holder',
  summary: 'a key offers storage for chunks and announces its addresses',
  sent: 'when a holder starts, when a value changes, before it expires; a newer one replaces it',
  tags: {
    slot: one('d', pattern(/^holder$/, '`holder`'), 'one announcement per key'),
    nostrain,
    objects: many('x', hex32, 'an object of which it stores chunks', MAX_OBJECTS),
    expiration: one(
      'expiration',
      seconds,
      'until when the offer is valid (NIP-40); at most 30 days after the event',
    ),
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  notes: `
The holder is the signing key, and all values are its own claims: where it matters, an attestation
(kind 37813) confirms region and tier. Contacts are hints from an untrusted source. The content is
canonical JSON, like that of a manifest.

<members>
`,
});
