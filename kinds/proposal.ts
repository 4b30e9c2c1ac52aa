/**
 * Proposal (7814, regular): an outcome put to the vote of a committee; it counts as its author's prepare.
 * Sent by the member whose turn it is, once per view. Nothing replaces it.
 */
import { castMembers, isAscending, isScope } from './_cast.ts';
import { canonicalObject, describeMembers, listMember, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { nostrain, one, repeats } from './_tags.ts';
import { hex32, seconds, type Text } from './_text.ts';
import { CHUNK_BYTES } from './chunk.ts';

/** The body with its quotes escaped, and as many ids as the largest committee has. */
const LONGEST_CONTENT = 262_144;
const MOST_IDS = 1024;

const body: Text<string> = {
  says: `JSON object of at most ${CHUNK_BYTES} characters, as text`,
  read: (text) => (text.length <= CHUNK_BYTES && /^\{.*\}$/s.test(text) ? text : undefined),
  write: (value) => value,
};

const members = {
  ...castMembers,
  prepares: listMember(hex32, 'ids of the prepares behind `justify`, ascending', MOST_IDS),
  ballots: listMember(hex32, 'ids of the ballots the committee is drawn from, ascending', MOST_IDS),
  body: member(body, 'the outcome, see docs/rounds.md'),
};

const notes = `
The content is canonical JSON: keys sorted, no spaces, plain integers.

${describeMembers(members)}

\`digest\` is the SHA-256 of \`nostrain/outcome/1\` and the body. The body is canonical JSON too, kept as text because the digest is over
its spelling. One proposal has one place with its author's prepare of the same view: two different contents there are a fault.
`;

export const proposal = defineKind({
  kind: 7814,
  name: 'proposal',
  summary: 'an outcome put to the vote',
  sent: 'by the member whose turn it is, once per view; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats('s', '`<run>` and `<run>/<round>`', 'run and round of the content'),
    x: one('x', hex32, 'digest of the content'),
    expiration: one('expiration', seconds, 'when relays may forget it (NIP-40)'),
  },
  content: canonicalObject('the members below', members, LONGEST_CONTENT),
  rules: [
    {
      says: '`s` is the run of the content, then its run and round',
      holds: ({ scope, run, round }) => isScope(scope, run, round),
    },
    { says: '`x` is the digest of the content', holds: ({ x, digest }) => x === digest },
    {
      says: '`prepares` is there when `justify` is a view, and `ballots` in attempts above 0',
      holds: ({ justify, prepares, attempt, ballots }) =>
        justify >= 0 === (prepares !== undefined) && attempt > 0 === (ballots !== undefined),
    },
    {
      says: '`prepares` and `ballots` are ascending',
      holds: ({ prepares, ballots }) => isAscending(prepares) && isAscending(ballots),
    },
  ],
  notes,
});
