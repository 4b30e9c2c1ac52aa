/** Vote (7813, regular): a committee member's vote to prepare or to commit an outcome, in one view of a round. */
import { canonicalObject, featuresMember, listMember, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { castMembers, isAscending, roundRules, roundTags } from './_shared.ts';
import { integer, pattern } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 65_536;
/** Maximum number of unlisted workers in a commit. */
const MOST_ROWS = 1024;

const members = {
  ...castMembers,
  step: member(pattern(/^(?:prepare|commit)$/, '`prepare` or `commit`'), 'phase of the vote'),
  unlisted: listMember(
    integer(0, 65_535),
    'commit: roster positions, ascending, of workers whose manifest the author received on time ' +
      'but the outcome does not list',
    MOST_ROWS,
  ),
  features: featuresMember,
};

const notes = `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

A prepare states that the outcome is valid, that its author has everything the outcome lists, and
that the author prefers it in this view. A commit states that a quorum prepared the outcome in this
view, and locks its author on it. A quorum of commits for one digest, in one view of one committee,
is a certificate. The next outcome lists the commits with their dates and signatures only, so
readers must be able to restore these events: they have exactly the tags below in this order, and
optionally one \`nonce\` (NIP-13) at the end. Two different contents in one slot (key, run, round,
attempt, parent, view, step) are a fault.
`;

/** 7813: a committee member prepares or commits an outcome. */
export const vote = defineKind({
  kind: 7813,
  name: 'vote',
  summary: 'a committee member prepares or commits an outcome',
  sent: 'once per view and step; nothing replaces it',
  tags: roundTags('digest of the content'),
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    ...roundRules('digest', '`x` is the digest of the content'),
    {
      says: 'a prepare has neither `unlisted` nor `features`, and a commit has `justify` -1',
      holds: ({ step, justify, unlisted, features }) =>
        step === 'commit' ? justify === -1 : unlisted === undefined && features === undefined,
    },
    { says: '`unlisted` is ascending', holds: ({ unlisted }) => isAscending(unlisted) },
  ],
  notes,
});
