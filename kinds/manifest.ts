/** Manifest (7810, regular): a worker commits to one payload for one round, and carries it or names its chunks. */
import { canonicalObject, featuresMember, listMember, member, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { DENSE_BLOCK, DENSE_BYTES, DENSE_LETTERS, denseLength, denseText } from './_dense.ts';
import { roundRules, roundTags } from './_shared.ts';
import { base64Bytes, base64Text, count, hex32, index, integer, name, pattern } from './_tags.ts';
import { CHUNK_BYTES, MAX_CHUNKS } from './chunk.ts';

/** Maximum length of a content: more than a manifest with a payload inside needs. */
const LONGEST_CONTENT = 65_536;

/**
 * Maximum bytes of a payload inside a manifest. As dense text it leaves 1.3 kB of an event of 64 KiB for everything
 * else.
 */
export const INSIDE_BYTES = 51_870;

/** Maximum number of shards: their index in GF(2^8) is one byte. */
const MOST_SHARDS = 256;

const members = {
  run: member(name, 'name of the run'),
  round: member(index, 'round index, from 0'),
  parent: optionalMember(
    hex32,
    'digest of the previous outcome, the run id in round 0; only in a certified run',
  ),
  base: member(
    hex32,
    'digest of the state from which the worker started; in a certified run its model root',
  ),
  codec: member(
    pattern(/^[a-z0-9][a-z0-9.+-]{0,63}$/, '1..64 of `a-z`, `0-9`, `.`, `+`, `-`'),
    'encoding of the payload',
  ),
  hash: member(hex32, 'SHA-256 of the payload'),
  bytes: member(integer(1, CHUNK_BYTES * MAX_CHUNKS), 'length of the payload'),
  root: member(hex32, "root of the payload's chunks, see kind 7811"),
  roster: optionalMember(
    hex32,
    'digest of the workers that share the parameters (docs/payload.md); absent if each sends all',
  ),
  examples: member(count, 'training examples seen; the weight in a weighted mean'),
  steps: member(count, 'inner steps taken'),
  prev: optionalMember(hex32, "id of the author's last manifest; absent in the first one"),
  payload: optionalMember(
    base64Text,
    `the payload; present if \`bytes\` is at most ${CHUNK_BYTES}`,
  ),
  dense: optionalMember(
    denseText,
    `the payload as dense text (below); only if \`bytes\` is ${CHUNK_BYTES + 1}..${INSIDE_BYTES}`,
  ),
  need: optionalMember(
    integer(1, MOST_SHARDS - 1),
    'number of shards that restore the payload; only with `shards`',
  ),
  shards: listMember(
    hex32,
    'roots of the shards of an erasure-coded payload, in order',
    MOST_SHARDS,
  ),
  features: featuresMember,
};

const BASE = DENSE_LETTERS.length;
const notes = `
The worker is the signing key. The content is canonical JSON (RFC 8785), so that the same values
always have the same text; any other spelling and any other member is refused.

<members>

Dense text has ${BASE} letters: printable ASCII without space, \`"\`, \`&\`, \`<\`, \`>\` and
\`\\\`, which JSON writers may escape. Their values ascend from 0 with their codes. Each
${DENSE_BYTES} bytes are one number of ${DENSE_BLOCK} letters in base ${BASE}, most significant byte
and letter first; the last block is padded with zero bytes.

Receivers fetch chunks by \`root\` from any source, and check \`hash\` when they have all of them.

An erasure-coded payload is sent as shards instead, each with its own chunks and root, so that each
relay can store one part. With k = \`need\` and n shards, shards 0 to k-1 are the payload cut into k
parts of \`bytes\` / k bytes, rounded up and padded with zeros. Shard k+i is the sum over j < k of
shard j times 1 / ((k+i) + j) in GF(2^8) with the polynomial 0x11d, where addition is XOR (a Cauchy
matrix). Any k shards restore the payload; \`root\` is then only checked, not queried.
`;

const isDenseOf = (dense: string, bytes: number): boolean =>
  bytes <= INSIDE_BYTES && dense.length === denseLength(bytes);

/** 7810: one worker's commitment to its payload for one round. */
export const manifest = defineKind({
  kind: 7810,
  name: 'manifest',
  summary: "one worker's commitment to its payload for one round",
  sent: 'once per round, after the chunks of the payload; nothing replaces it',
  tags: roundTags('root of the content'),
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    ...roundRules('root', '`x` is the root of the content'),
    {
      says:
        `\`payload\` is present if and only if \`bytes\` is at most ${CHUNK_BYTES}; ` +
        `\`dense\` may be present if it is ${CHUNK_BYTES + 1}..${INSIDE_BYTES}`,
      holds: ({ bytes, payload, dense }) =>
        payload === undefined
          ? bytes > CHUNK_BYTES && (dense === undefined || isDenseOf(dense, bytes))
          : bytes <= CHUNK_BYTES && dense === undefined && base64Bytes(payload) === bytes,
    },
    {
      says: '`need` and `shards` are both present or both absent, with more shards than `need`',
      holds: ({ need, shards }) =>
        (need === undefined) === (shards === undefined) && (need ?? 0) < (shards?.length ?? 1),
    },
    {
      says: 'a payload inside the content is not erasure-coded',
      holds: ({ payload, dense, shards }) => (payload ?? dense) === undefined || !shards,
    },
  ],
  notes,
});
