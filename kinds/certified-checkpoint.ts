/** Certified checkpoint (7812, regular): where the state after a certified outcome can be had, for whoever joins. */
import { canonicalObject, featuresMember, listMember, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { roundRules, roundTags } from './_shared.ts';
import { hex32, index, integer, word } from './_tags.ts';
import { CHUNK_BYTES, MAX_CHUNKS } from './chunk.ts';

const LONGEST_CONTENT = 16_384;

const length = integer(1, CHUNK_BYTES * MAX_CHUNKS);

const members = {
  run: member(hex32, 'id of the run'),
  round: member(index, 'the round whose outcome made the state'),
  outcome: member(hex32, 'digest of that outcome'),
  modelRoot: member(
    hex32,
    'as the outcome has it: root of the chunks of parameters and momentum, or over those of slices',
  ),
  modelBytes: member(length, 'length of parameters and momentum'),
  ledgerRoot: member(hex32, 'as the outcome has it'),
  ledgerChunks: member(hex32, 'root of the chunks of the ledger'),
  ledgerBytes: member(length, 'length of the ledger'),
  relays: listMember(word, 'where the chunks were sent', 16),
  features: featuresMember,
};

/** 7812: where the state after a certified outcome can be had. */
export const certifiedCheckpoint = defineKind({
  kind: 7812,
  name: 'certified-checkpoint',
  summary: 'where the state after a certified outcome can be had',
  sent: 'every so many rounds by whoever holds the state, once its chunks are out',
  tags: roundTags('model root of the content'),
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [...roundRules('modelRoot', '`x` is the model root')],
  notes: `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

It proves nothing. Take both roots from an outcome with a certificate, the chunks (kind 7811) from
anybody, and the state is the certified one or it is refused.

Several keepers send one state, each a share of its chunks, and say so when the first copies of
their share are out; the others may still be on their way. A chunk of nothing but zeros, such as
momentum that is none, is not sent, unless it is the first. Readers know it from the paths of
others: every subtree of zeros that is as large as can be is a neighbour in the path of a chunk that
is sent, and its hash follows from its place alone.
`,
});
