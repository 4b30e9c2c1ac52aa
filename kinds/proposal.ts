/** Proposal (7814, regular): proposes an outcome to a committee, and counts as its author's prepare vote. */
import { canonicalObject, listMember } from './_content.ts';
import { defineKind } from './_define.ts';
import {
  bodyMembers,
  bodyRules,
  castMembers,
  isAscending,
  MOST_CONTENT_BYTES,
  roundRules,
  roundTags,
} from './_shared.ts';
import { hex32, type Text } from './_tags.ts';

/** Maximum number of ids in a list of a proposal. */
const MOST_IDS = 1024;
/** Maximum bytes of an outcome: one with a row for each of 65,536 workers has 3 MB. */
export const MOST_OUTCOME_BYTES = 4_194_304;

const body: Text<string> = {
  says: 'JSON object as text',
  read: (text) => (/^\{.*\}$/s.test(text) ? text : undefined),
  write: (value) => value,
};

const members = {
  ...castMembers,
  prepares: listMember(hex32, 'ids of the prepares that prove `justify`, ascending', MOST_IDS),
  ballots: listMember(
    hex32,
    'ids of the view-change votes from which the committee is drawn, ascending',
    MOST_IDS,
  ),
  ...bodyMembers(body, 'the outcome, see docs/round-events.md', MOST_OUTCOME_BYTES),
};

const content = canonicalObject(members, MOST_CONTENT_BYTES);

const notes = `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

\`digest\` is the SHA-256 of \`nostrain/outcome/2\` and the body. The body is canonical JSON too,
kept as text because the digest depends on the exact text. A body that does not fit is sent in
chunks before the proposal. Any key may serve the chunks, and members vote only after they have all
of them. A body in chunks that would have fit is refused, so that each body has one form.

A proposal shares a slot with its author's prepare of the same view: two different contents there
are a fault, whatever their bodies.
`;

/** 7814: a proposed outcome. */
export const proposal = defineKind({
  kind: 7814,
  name: 'proposal',
  summary: 'proposes an outcome to a committee',
  sent: 'by the proposer of a view, once per view; nothing replaces it',
  tags: roundTags('digest of the content'),
  content,
  rules: [
    ...roundRules('digest', '`x` is the digest of the content'),
    {
      says:
        '`prepares` is present if and only if `justify` is a view, ' +
        'and `ballots` if and only if `attempt` is above 0',
      holds: ({ justify, prepares, attempt, ballots }) =>
        justify >= 0 === (prepares !== undefined) && attempt > 0 === (ballots !== undefined),
    },
    {
      says: '`prepares` and `ballots` are ascending',
      holds: ({ prepares, ballots }) => isAscending(prepares) && isAscending(ballots),
    },
    ...bodyRules(content.write),
  ],
  notes,
});
