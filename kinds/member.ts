/** Member (7818, regular): a key joins a run, leaves it, casts a view-change vote, or reports a failed check. */
import { canonicalObject, featuresMember, listMember, member, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { isAscending } from './_shared.ts';
import { expiration, hex32, index, nostrain, pattern, repeats } from './_tags.ts';

/** Maximum length of a content, in characters: a view-change vote may list `MOST_IDS` ids. */
const LONGEST_CONTENT = 131_072;
/** Maximum number of prepares in a view-change vote. */
const MOST_IDS = 1024;

const members = {
  run: member(hex32, 'id of the run'),
  type: member(
    pattern(/^(?:join|leave|ballot|verdict)$/, '`join`, `leave`, `ballot` or `verdict`'),
    'type of the event',
  ),
  after: optionalMember(hex32, 'join: digest of a recent outcome; the run id before the first one'),
  tip: optionalMember(hex32, "join: end of the author's reveal chain, see docs/committee.md"),
  evidence: optionalMember(
    pattern(
      /^[^\p{Cc}\p{Surrogate}]{1,256}$/u,
      'text, 1..256 characters without control characters',
    ),
    "join: the proof that the run's admission requires, if any",
  ),
  last: optionalMember(index, 'leave: the last round the author takes part in'),
  round: optionalMember(index, 'ballot: round index'),
  attempt: optionalMember(
    index,
    'ballot: the author no longer votes in recovery epochs below this one',
  ),
  parent: optionalMember(hex32, 'ballot: digest of the previous outcome; the run id in round 0'),
  preparedAttempt: optionalMember(
    index,
    'ballot: recovery epoch of the highest outcome known to be prepared',
  ),
  preparedView: optionalMember(index, 'ballot: its view'),
  preparedDigest: optionalMember(hex32, 'ballot: its digest'),
  preparedProposal: optionalMember(hex32, 'ballot: id of a proposal of it in that view'),
  prepares: listMember(hex32, 'ballot: ids of a quorum of its prepares, ascending', MOST_IDS),
  checked: optionalMember(index, 'verdict: round of the contribution whose steps were recomputed'),
  accused: optionalMember(hex32, 'verdict: its author'),
  manifest: optionalMember(hex32, 'verdict: id of its manifest'),
  reason: optionalMember(
    pattern(/^[a-z][a-z-]{0,31}$/, '1..32 lowercase letters and hyphens'),
    'verdict: why the check failed, see docs/recomputation.md',
  ),
  features: featuresMember,
};

const notes = `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

Outcomes list joins and leaves with their dates and signatures only, so readers must be able to
restore these events: they have exactly the tags below in this order, and optionally one \`nonce\`
(NIP-13) at the end.

A view-change vote (\`ballot\`) has all five members of the prepared outcome or none. Two different
votes of one key for one recovery epoch (\`attempt\`) are a fault.

A \`verdict\` is the claim of one member. The verdicts of a quorum, together in a fault proof
(7817), expel the accused from the run.
`;

/** Members of a type in addition to `run` and `type`; those of `together` are all present or all absent. */
interface TypeMembers {
  readonly needs: readonly string[];
  readonly takes: readonly string[];
  readonly together: readonly string[];
}

/** Members of each type of event. */
const MEMBERS_OF: Readonly<Record<string, TypeMembers>> = {
  join: { needs: ['after', 'tip'], takes: ['evidence', 'features'], together: [] },
  leave: { needs: ['last'], takes: [], together: [] },
  ballot: {
    needs: ['round', 'attempt', 'parent'],
    takes: [],
    together: ['preparedAttempt', 'preparedView', 'preparedDigest', 'preparedProposal', 'prepares'],
  },
  verdict: { needs: ['checked', 'accused', 'manifest', 'reason'], takes: [], together: [] },
};

/** Reports whether a content has the members of its type and no others. */
function isOfType(content: Readonly<Record<string, unknown>>, type: string): boolean {
  const { needs, takes, together } = MEMBERS_OF[type]!;
  const has = (name: string): boolean => content[name] !== undefined;
  const allowed = ['run', 'type', ...needs, ...takes, ...together];
  const others = Object.keys(members).filter((name) => !allowed.includes(name));
  const isWhole = together.every(has) || !together.some(has);
  return needs.every(has) && isWhole && !others.some(has);
}

/** 7818: a key joins a run, leaves it, votes to leave a recovery epoch, or reports a failed check. */
export const memberKind = defineKind({
  kind: 7818,
  name: 'member',
  summary:
    'a key joins a run, leaves it, votes to leave a recovery epoch, or reports a failed check',
  sent: 'when a worker joins or leaves, a round is stuck, or a check failed; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats(
      's',
      '`<run>`, in a view-change vote also `<run>/<round>`',
      'run and round of the content',
    ),
    expiration,
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    {
      says: 'the content has the members of its type and no others',
      holds: (content) => isOfType({ ...content }, content.type),
    },
    {
      says: '`s` is the run of the content; in a view-change vote a second one is run and round',
      holds: ({ scope, run, round }) =>
        scope.join() === (round === undefined ? [run] : [run, `${run}/${round}`]).join(),
    },
    { says: '`prepares` is ascending', holds: ({ prepares }) => isAscending(prepares) },
  ],
  notes,
});
