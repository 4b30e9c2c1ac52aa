/** Delegation (7820, regular): a key lets a session key take part in one run in its name, up to a round. */
import { canonicalObject, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { hex32, index, nostrain, one, pattern } from './_tags.ts';

const LONGEST_CONTENT = 512;
/** What signers show their owners (NIP-31). */
export const DELEGATION_ALT = 'Another key may take part in one training run in my name';

const members = {
  run: member(hex32, 'id of the run'),
  session: member(hex32, 'the key that takes part'),
  until: member(index, 'index of the last round in which it may'),
};

/** 7820: a key lets a session key take part in one run in its name. */
export const delegation = defineKind({
  kind: 7820,
  name: 'delegation',
  summary: 'a key lets a session key take part in one run in its name',
  sent: 'never by itself: joins carry its author, date and signature, from which it is made again',
  tags: {
    nostrain,
    alt: one('alt', pattern(new RegExp(`^${DELEGATION_ALT}$`), `\`${DELEGATION_ALT}\``), 'NIP-31'),
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [],
  notes: `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

It counts only in runs whose spec has the feature \`sessions\`, only in a join that the session key
signed, and only with these two tags in this order: whoever has the join makes the event again and
checks its signature. It says nothing about any other run, key or event.
`,
});
