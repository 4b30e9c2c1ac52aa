/**
 * Certified checkpoint (7812, regular): names the chunks of the state after a certified outcome, so that newcomers can
 * download it.
 */
import { canonicalObject, featuresMember, listMember, member } from './_content.ts';
import { defineKind } from './_define.ts';
import { roundRules, roundTags } from './_shared.ts';
import { hex32, index, integer, word } from './_tags.ts';
import { CHUNK_BYTES, MAX_CHUNKS } from './chunk.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 16_384;

const length = integer(1, CHUNK_BYTES * MAX_CHUNKS);

const members = {
  run: member(hex32, 'id of the run'),
  round: member(index, 'round whose outcome leads to the state'),
  outcome: member(hex32, 'digest of that outcome'),
  modelRoot: member(
    hex32,
    'as in the outcome: root of the chunks of parameters and momentum, or over the roots of slices',
  ),
  modelBytes: member(length, 'length of parameters and momentum'),
  ledgerRoot: member(hex32, 'as in the outcome'),
  ledgerChunks: member(hex32, 'root of the chunks of the ledger'),
  ledgerBytes: member(length, 'length of the ledger'),
  relays: listMember(word, 'relays to which the chunks were sent', 16),
  features: featuresMember,
};

/** 7812: names the chunks of the state after a certified outcome. */
export const certifiedCheckpoint = defineKind({
  kind: 7812,
  name: 'certified-checkpoint',
  summary: 'names the chunks of the state after a certified outcome',
  sent: 'at the checkpoint interval by workers that hold the state, after its chunks',
  tags: roundTags('model root of the content'),
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [...roundRules('modelRoot', '`x` is the model root')],
  notes: `
The content is canonical JSON: keys sorted, no spaces, plain integers.

<members>

The event itself proves nothing. Take both roots from an outcome with a certificate and the chunks
(kind 7811) from any source: the state is the certified one, or its hash does not match.

Several keepers send one state, each a share of its chunks, and publish this event when the first
copies of their share are out; other copies may still follow. A chunk that consists of zeros, such
as that of unused momentum, is not sent unless it is the first. Readers derive it from the paths of
other chunks: every maximal subtree of zeros is a neighbour in the path of a chunk that is sent, and
its hash follows from its position alone.
`,
});
