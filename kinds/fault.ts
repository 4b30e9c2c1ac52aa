/**
 * Fault proof (7817, regular): two events of one key that no honest key signs both of, in full.
 * Sent by whoever holds both; anybody may send it again under their own key. Nothing replaces it.
 */
import { canonicalObject, describeMembers, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { nostrain, one, repeats } from './_tags.ts';
import { hex32, seconds, type Text } from './_text.ts';

/** An event as large as relays take it. */
const LONGEST_EVENT = 65_536;
const LONGEST_CONTENT = 4 * LONGEST_EVENT;

const event: Text<string> = {
  says: `event as JSON text of at most ${LONGEST_EVENT} characters`,
  read: (text) => (text.length <= LONGEST_EVENT && /^\{.*\}$/s.test(text) ? text : undefined),
  write: (value) => value,
};

const members = {
  run: member(hex32, 'id of the run'),
  first: member(event, 'the event with the lower id'),
  second: member(event, 'the other one'),
};

const notes = `
The content is canonical JSON: keys sorted, no spaces.

${describeMembers(members)}

Both events are of one author, with ids and signatures that hold. They prove a fault when they say two different things in one place,
or when one is a commit and the other a prepare of something else in a later view that was not justified by a view since.
The proof counts whoever signed it; two manifests with payloads inside are larger than what most relays take.
`;

export const fault = defineKind({
  kind: 7817,
  name: 'fault',
  summary: 'two events that prove their author broke the rules',
  sent: 'by whoever holds both; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats('s', '`<run>`', 'run of the content'),
    expiration: one('expiration', seconds, 'when relays may forget it (NIP-40)'),
  },
  content: canonicalObject('the members below', members, LONGEST_CONTENT),
  rules: [
    {
      says: '`s` is the run of the content',
      holds: ({ scope, run }) => scope.length === 1 && scope[0] === run,
    },
  ],
  notes,
});
