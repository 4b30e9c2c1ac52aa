/**
 * Fault proof (7817, regular): proves that a key broke the rules, by two of its events that contradict each other
 * (equivocation) or by verdicts of a quorum on one of its contributions.
 */
import { canonicalObject, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { bodyMembers, bodyRules, MOST_CONTENT_BYTES, runScopeRule } from './_shared.ts';
import { expiration, hex32, nostrain, repeats, type Text } from './_tags.ts';

/** Maximum bytes of an event as JSON: twice what most relays accept. Larger events of certified runs are ignored. */
export const MOST_EVENT_BYTES = 131_072;
/** Maximum bytes of a body with two events. */
const MOST_PAIR_BYTES = 2 * MOST_EVENT_BYTES + '[,]'.length;

const pair: Text<string> = {
  says: 'JSON list of events as text',
  read: (text) => (/^\[\{.*\}\]$/s.test(text) ? text : undefined),
  write: (value) => value,
};

const members = {
  run: member(hex32, 'id of the run'),
  ...bodyMembers(pair, 'the events, by id', MOST_PAIR_BYTES),
};

const content = canonicalObject(members, MOST_CONTENT_BYTES);

const notes = `
The content is canonical JSON: keys sorted, no spaces.

<members>

The body is JSON without spaces: a list of objects with \`id\`, \`pubkey\`, \`created_at\`,
\`kind\`, \`tags\`, \`content\` and \`sig\`, in this order. Hence all proofs with the same events
have the same body and the same chunks.

A proof takes one of two forms, and its own author does not matter:

- Two events of one author, with valid ids and signatures. They prove a fault if they have different
  contents in the same slot, or if one is a commit and the other a prepare of something else in a
  later view that no view since then justifies. Of a proposal the event is enough, without its
  outcome.
- Two or more verdicts (7818) on one contribution, each of a different author. They prove that the
  contribution is not the result of its author's steps if their authors are a quorum of the
  committee of the round after it ([rounds](recomputation.md#members-check-by-themselves)).
`;

/** 7817: events that prove that a key broke the rules. */
export const fault = defineKind({
  kind: 7817,
  name: 'fault',
  summary: 'events that prove that a key broke the rules',
  sent: 'by any key that has the events; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats('s', '`<run>`', 'run of the content'),
    expiration,
  },
  content,
  rules: [runScopeRule, ...bodyRules(content.write)],
  notes,
});
