/** Holder (37812, addressable): a key offers storage for chunks, and says where it can be reached. */
import { canonicalObject, listMember, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { hex32, integer, many, nostrain, one, pattern, seconds } from './_tags.ts';

const LONGEST_CONTENT = 4096;
const MOST_CONTACTS = 4;
/** So many that the event still fits every relay, and a datagram's worth of them every answer. */
const MOST_HELD = 64;
const word = pattern(
  /^[a-z0-9][a-z0-9._-]{0,31}$/,
  '1..32 of `a-z0-9._-`, beginning with a letter or digit',
);
const contact = pattern(
  /^https?:\/\/[a-z0-9.-]{1,253}(?::[1-9][0-9]{0,4})?(?:\/[A-Za-z0-9._~-]{1,64}){0,4}$/,
  'an `http` or `https` address without user, query and end slash',
);

const members = {
  contacts: listMember(contact, 'where its holder server is, best first', MOST_CONTACTS),
  region: member(word, 'where it is'),
  tier: member(word, 'its trust tier'),
  classes: listMember(word, 'classes of objects it takes; left out of one that takes all', 16),
  weight: member(
    integer(0, 1_000_000),
    'its share of what is placed, beside the others; 0 takes nothing more',
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
  summary: 'a key offers storage for chunks, and says where it can be reached',
  sent: 'when a holder starts, when a value changes, before it expires; a newer one replaces it',
  tags: {
    slot: one('d', pattern(/^holder$/, '`holder`'), 'one announcement per key'),
    nostrain,
    held: many('x', hex32, 'an object it holds all or some chunks of', MOST_HELD),
    expiration: one(
      'expiration',
      seconds,
      'until when it holds (NIP-40); at most 30 days after the event',
    ),
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  notes: `
The holder is the key that signs, and all of this is its own word: where it matters, an attestation
(kind 37813) confirms region and tier. Contacts are hints of a stranger. The content is canonical
JSON, as a manifest's is.

<members>
`,
});
