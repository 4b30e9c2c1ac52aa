/** Fault proof (7817, regular): two contradictory events of one key (equivocation), or verdicts on one contribution. */
import { canonicalObject, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { bodyMembers, bodyRules, MOST_CONTENT_BYTES, runScopeRule } from './_shared.ts';
import { expiration, hex32, nostrain, repeats, type Text } from './_tags.ts';

/** As JSON: twice what most relays take. A larger event of a certified run says nothing. */
export const MOST_EVENT_BYTES = 131_072;
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
\`kind\`, \`tags\`, \`content\` and \`sig\`, in this order. So everybody who shows the same events
makes the same body, and the same chunks of it.

There are two events of one author, with ids and signatures that hold. They prove a fault when they
say two different things in one place, or when one is a commit and the other a prepare of something
else in a later view that was not justified by a view since. Or there are two or more verdicts
(7818) on one contribution, each of another author, which prove that it is not what its author's
steps lead to where those authors are a quorum of the committee of the round after it
([rounds](rounds.md#members-check-by-themselves)). The proof counts whoever signed it. A proposal
proves it without its outcome: what is in the event is enough.
`;

/** 7817: events that prove that somebody broke the rules. */
export const fault = defineKind({
  kind: 7817,
  name: 'fault',
  summary: 'events that prove that somebody broke the rules',
  sent: 'by whoever holds them; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats('s', '`<run>`', 'run of the content'),
    expiration,
  },
  content,
  rules: [runScopeRule, ...bodyRules(content.write)],
  notes,
});
