/** Delegation (7820, regular): a key lets a session key take part in one run on its behalf, up to a round. */
import { canonicalObject, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { hex32, index, nostrain, one, pattern } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 512;
/** Text that signers show to their owners (NIP-31). */
export const DELEGATION_ALT = 'Another key may take part in one training run in my name';

const members = {
  run: member(hex32, 'id of the run'),
  session: member(hex32, 'the session key'),
  until: member(index, 'index of the last round in which it may take part'),
};

/** 7820: a key lets a session key take part in one run on its behalf. */
export const delegation = defineKind({
  kind: 7820,
  name: 'delegation',
  summary: 'a key lets a session key take part in one run on its behalf',
  sent: 'never on its own: joins carry its author, date and signature, which restore it',
  tags: {
    nostrain,
    alt: one('alt', pattern(new RegExp(`^${DELEGATION_ALT}$`), `\`${DELEGATION_ALT}\``), 'NIP-31'),
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [],
  notes: `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

It is valid only in runs whose spec has the feature \`sessions\`, only in a join that the session
key signed, and only with these two tags in this order: a reader of the join restores the event and
checks its signature. It permits nothing else: no other run, key or event.
`,
});
