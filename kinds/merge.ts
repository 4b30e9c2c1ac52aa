/** Merge (7821, regular): a message between the validators of a run that merge contributions. */
import { canonicalObject, listMember, member, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { isAscending } from './_shared.ts';
import { expiration, hex32, index, integer, name, nostrain, pattern, repeats } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 16_384;
/** Maximum contributions in a merge. */
const MOST_MERGED = 64;
/** Maximum bytes of a payload: a state with its momentum. */
const MOST_BYTES = 2 ** 33;

const members = {
  run: member(name, 'name of the run'),
  step: member(
    pattern(
      /^(?:draw|merge|state|ask-merge|ask-state|answer)$/,
      '`draw`, `merge`, `state`, `ask-merge`, `ask-state` or `answer`',
    ),
    'what the message is, below',
  ),
  round: member(index, 'round index, from 0'),
  digest: member(
    hex32,
    'digest of the state from which its author starts the round; ask-state: wanted',
  ),
  nonce: member(hex32, '32 bytes that its author uses once'),
  to: optionalMember(hex32, 'asks: the validator that is asked; answer: id of the request'),
  merged: listMember(hex32, 'merge: ids of the merged manifests, ascending', MOST_MERGED),
  codec: optionalMember(
    pattern(/^[a-z][a-z0-9-]{0,31}$/, 'name of a packing'),
    'merge: packing of the merged delta',
  ),
  root: optionalMember(hex32, 'merge, answer: root of the chunks (kind 7811) of the payload'),
  bytes: optionalMember(integer(1, MOST_BYTES), 'merge, answer: length of the payload'),
};

/** 7821: a message between validators that merge. */
export const merge = defineKind({
  kind: 7821,
  name: 'merge',
  summary: 'a message between the validators of a run that merge contributions',
  sent: 'several times per round; nothing replaces it',
  tags: {
    nostrain,
    scope: repeats('s', '`<run>/validators`', 'run of the content'),
    expiration,
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    {
      says: '`s` is the run of the content and `/validators`',
      holds: ({ scope, run }) => scope.length === 1 && scope[0] === `${run}/validators`,
    },
    {
      says: '`root` and `bytes` are present exactly in `merge` and `answer`, `codec` in `merge`',
      holds: ({ step, root, bytes, codec }) => {
        const hasPayload = step === 'merge' || step === 'answer';
        return (
          hasPayload === (root !== undefined) &&
          hasPayload === (bytes !== undefined) &&
          (step === 'merge') === (codec !== undefined)
        );
      },
    },
    {
      says: '`to` is present exactly in asks and answers',
      holds: ({ step, to }) => /^a/.test(step) === (to !== undefined),
    },
    { says: '`merged` is ascending', holds: ({ merged }) => isAscending(merged) },
  ],
  notes: `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

- \`draw\`: the nonce of the round's drawn validator is mixed into the draw of the data rows on
  which contributions are scored.
- \`merge\`: the mean of the best contributions, as a payload (docs/payload.md) whose sender is 32
  zero bytes, so that equal merges are equal payloads.
- \`state\`: the author starts the round from this digest.
- \`ask-merge\`: requests the merge of the round, which is sent again with a new nonce.
- \`ask-state\`: requests the state of \`digest\`; a validator with another state sends its
  \`state\`.
- \`answer\`: the state of the digest: its parameters and its momentum, as little-endian f32.

A message counts only if its author is a validator of the run, its date is within 30 s of the
reader's clock, and its nonce is new. See docs/merging-validators.md.
`,
});
