/**
 * Member (7818, regular): a key joins a run, leaves it, or casts a view-change vote (`ballot`).
 * Joins and leaves are sent when the worker comes and goes, view-change votes when a round is stuck: they end a recovery epoch of it
 * (`attempt`) and begin the next. Nothing replaces them.
 */
import { isAscending } from './_cast.ts';
import {
  canonicalObject,
  describeMembers,
  featuresMember,
  listMember,
  member,
  optionalMember,
} from './_content.ts';
import { defineKind } from './_define.ts';
import { nostrain, one, repeats } from './_tags.ts';
import { hex32, index, pattern, seconds } from './_text.ts';

const LONGEST_CONTENT = 131_072;
const MOST_IDS = 1024;

const members = {
  run: member(hex32, 'id of the run'),
  type: member(pattern(/^(?:join|leave|ballot)$/, '`join`, `leave` or `ballot`'), 'what it is'),
  after: optionalMember(
    hex32,
    'join: digest of one of the last outcomes; the run id before there is one',
  ),
  tip: optionalMember(hex32, "join: end of the author's reveal chain, see docs/committee.md"),
  evidence: optionalMember(
    pattern(
      /^[^\p{Cc}\p{Surrogate}]{1,256}$/u,
      'text, 1..256 characters without control characters',
    ),
    "join: what the run's admission asks for, if anything",
  ),
  last: optionalMember(index, 'leave: the last round the author takes part in'),
  round: optionalMember(index, 'ballot: round index'),
  attempt: optionalMember(
    index,
    'ballot: the author votes in no recovery epoch below this one any more',
  ),
  parent: optionalMember(hex32, 'ballot: digest of the outcome before; the run id in round 0'),
  preparedAttempt: optionalMember(
    index,
    'ballot: recovery epoch of the highest outcome known to be prepared',
  ),
  preparedView: optionalMember(index, 'ballot: its view'),
  preparedDigest: optionalMember(hex32, 'ballot: its digest'),
  preparedProposal: optionalMember(hex32, 'ballot: id of a proposal of it in that view'),
  prepares: listMember(hex32, 'ballot: ids of a quorum of its prepares, ascending', MOST_IDS),
  features: featuresMember,
};

const notes = `
The content is canonical JSON: keys sorted, no spaces, plain integers.

${describeMembers(members)}

Outcomes list joins and leaves with their dates and signatures, so each must be one that can be made again from that: it has the tags
below in this order and no others, but for one \`nonce\` (NIP-13) at the end.

A view-change vote (\`ballot\`) has the five members of the prepared outcome, or none of them. Two different ones of one key for one
recovery epoch (\`attempt\`) are a fault.
`;

interface Said {
  readonly [name: string]: unknown;
}

const has = (said: Said, names: readonly string[]): boolean =>
  names.every((each) => said[each] !== undefined);
const lacks = (said: Said, names: readonly string[]): boolean =>
  names.every((each) => said[each] === undefined);

const JOIN = ['after', 'tip'];
const LEAVE = ['last'];
const BALLOT = ['round', 'attempt', 'parent'];
const PREPARED = [
  'preparedAttempt',
  'preparedView',
  'preparedDigest',
  'preparedProposal',
  'prepares',
];

/** Members of its type, and of no other. */
function isOfType(said: Said): boolean {
  if (said.type === 'join')
    return has(said, JOIN) && lacks(said, [...LEAVE, ...BALLOT, ...PREPARED]);
  const isNoJoin = lacks(said, [...JOIN, 'evidence', 'features']);
  if (said.type === 'leave')
    return isNoJoin && has(said, LEAVE) && lacks(said, [...BALLOT, ...PREPARED]);
  const isWhole = has(said, PREPARED) || lacks(said, PREPARED);
  return isNoJoin && lacks(said, LEAVE) && has(said, BALLOT) && isWhole;
}

/** 7818: a key joins a run, leaves it, or votes to leave a recovery epoch. */
export const memberKind = defineKind({
  kind: 7818,
  name: 'member',
  summary: 'a key joins a run, leaves it, or votes to leave a recovery epoch',
  sent: 'when a worker comes or goes, and when a round is stuck; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats(
      's',
      '`<run>`, of a view-change vote also `<run>/<round>`',
      'run and round of the content',
    ),
    expiration: one('expiration', seconds, 'when relays may forget it (NIP-40)'),
  },
  content: canonicalObject('the members below', members, LONGEST_CONTENT),
  rules: [
    {
      says: 'it has the members of its type and no others',
      holds: (said) => isOfType({ ...said }),
    },
    {
      says: '`s` is the run of the content, of a view-change vote then its run and round',
      holds: ({ scope, run, round }) =>
        scope.join() === (round === undefined ? [run] : [run, `${run}/${round}`]).join(),
    },
    { says: '`prepares` is ascending', holds: ({ prepares }) => isAscending(prepares) },
  ],
  notes,
});
