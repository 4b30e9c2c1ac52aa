/** Readers of the fields that features add to contents of a run: bounded in size, and with one canonical form. */

import { fromHex } from '../../base/bytes.ts';
import {
  canonicalJson,
  isJsonObject,
  type Json,
  type JsonObject,
} from '../../base/canonical-json.ts';
import { isCount, isHash, isNumber, isObject, isWithin, listOf } from '../../base/shape.ts';
import { parseShard } from '../field.ts';
import type { WorkerId } from '../ids.ts';
import { MOST_EXPERTS, MOST_TIERS } from './model-spec.ts';
import { MOST_HOPS } from './spec-table.ts';

/** A field of a content: plain JSON, in canonical form. */
export interface FeatureField<T extends Json = Json> {
  /** The accepted form, in words that follow "it must be". */
  readonly accepted: string;
  readonly doc: string;
  /** Returns the value; undefined for anything but the accepted form. */
  read(json: Json): T | undefined;
}

/** Maximum number of members, or of deleted notes, that a vote names. */
export const MOST_INDICES = 1024;
/** Largest score; its negative is the score of an update whose loss is not finite. */
export const MOST_SCORE = 1_000_000_000;
/** Maximum characters of a reported text sample, and of the device name. */
export const MOST_SAMPLE = 160;
export const MOST_DEVICE = 64;
/** Rounds whose contribution sizes bound those of the next round. */
const MOST_SIZES = 8;
/** Rounds over which a rolling score is averaged. */
export const MOST_SCORES = 8;
/** Rounds after its listing in which a contribution may be found at fault; committees are remembered that long. */
export const JURY_ROUNDS = 8;
/** Maximum characters of the events in a join. */
export const MOST_PROOF = 12_288;
/** Maximum slices of a model. */
const MOST_DIGESTS = MOST_TIERS + 1;

/** A field that accepts what `is` accepts. */
const field =
  <T extends Json>(accepted: string, is: (json: unknown) => json is T) =>
  (doc: string): FeatureField<T> => ({
    accepted,
    doc,
    read: (json) => (is(json) ? json : undefined),
  });

const isRosterIndex = isWithin(0, 0xffff);
const isScore = (value: unknown): value is number =>
  isWithin(-MOST_SCORE, MOST_SCORE)(value) && !Object.is(value, -0);
const isSize = (value: unknown): value is number =>
  isNumber(value) && Number.isFinite(value) && value >= 0;

/** Like listOf, and strictly ascending by a key of each item. */
const isAscending =
  <T>(isItem: (item: unknown) => item is T, most: number, keyOf: (item: T) => string | number) =>
  (json: unknown): json is readonly T[] =>
    listOf(isItem, most)(json) &&
    json.every((item, i) => i === 0 || keyOf(json[i - 1]!) < keyOf(item));

const same = <T>(item: T): T => item;

/** A hash. */
export const digest = field('64 lowercase hex digits', isHash);

/** Hashes, such as one for each slice. */
export const digests = field(
  `a list of 1 to ${MOST_DIGESTS} hashes, each of 64 lowercase hex digits`,
  listOf(isHash, MOST_DIGESTS, 1),
);

/** A key, or the empty text. */
export const keyOrNone = field(
  'a public key in hex, or empty',
  (json): json is WorkerId | '' => json === '' || isHash(json),
);

/** Keys, each once. */
export const keysAscending = field(
  'a list of public keys in hex, ascending',
  isAscending(isHash, Number.POSITIVE_INFINITY, same),
);

/** Indices in a roster, each once. */
export const rosterIndices = field(
  `a list of at most ${MOST_INDICES} indices in the roster, ascending`,
  isAscending(isRosterIndex, MOST_INDICES, same),
);

/** Maximum notes of a corpus: a token file has the ends of as many documents. */
export const MOST_NOTES = 65_536;

/** Positions of notes in a corpus, each once. */
export const notePositions = (most: number) =>
  field(
    `a list of at most ${most} positions of notes, ascending`,
    isAscending(isWithin(0, MOST_NOTES - 1), most, same),
  );

/** An index in the roster and its score. */
export type IndexedScore = readonly [number, number];

const isIndexedScore = (pair: unknown): pair is IndexedScore =>
  Array.isArray(pair) && pair.length === 2 && isRosterIndex(pair[0]) && isScore(pair[1]);

/** A score for each of some roster indices. */
export const scored = field(
  `a list of at most ${MOST_INDICES} pairs of an index, ascending, and a score`,
  isAscending(isIndexedScore, MOST_INDICES, ([index]) => index),
);

/** Scores in the order they came. */
export const scoreList = field(
  `a list of at most ${MOST_SCORES} scores`,
  listOf(isScore, MOST_SCORES),
);

/** The last rounds, ascending. */
export const lastRounds = field(
  `a list of at most ${JURY_ROUNDS} rounds, ascending`,
  isAscending(isCount, JURY_ROUNDS, same),
);

/** A former member's key, and the last rounds in whose committee it sat. */
export type FormerJuror = readonly [WorkerId, readonly number[]];

const isFormerJuror = (pair: unknown): pair is FormerJuror =>
  Array.isArray(pair) &&
  pair.length === 2 &&
  isHash(pair[0]) &&
  isAscending(isCount, JURY_ROUNDS, same)(pair[1]);

/** Former members that sat in committees of the last rounds. */
export const formerJurors = field(
  `a list of pairs of a public key in hex, ascending, and at most ${JURY_ROUNDS} rounds, ascending`,
  isAscending(isFormerJuror, Number.POSITIVE_INFINITY, ([key]) => key),
);

/** A measure in millionths. */
export const millionths = field(
  'a whole number, or null for no value',
  (json): json is number | null => json === null || Number.isSafeInteger(json),
);

const words = (most: number) =>
  field(
    `at most ${most} characters`,
    (json): json is string =>
      typeof json === 'string' && json.length <= most && json.isWellFormed(),
  );

/** What workers report about themselves and the shared parameters. */
export const measured = {
  device: words(MOST_DEVICE)('what it trains on'),
  shared: millionths(
    'validation loss of the shared parameters at the start of the round, in millionths',
  ),
  bits: millionths('the same in bits per byte of text, in millionths'),
  sample: words(MOST_SAMPLE)('text that the shared parameters write; empty for none'),
};

/** What workers report about pictures. */
export const hits = {
  right: millionths(
    'share of held-out pictures that the shared parameters have right at the start of the ' +
      'round, in millionths',
  ),
};

/** Longest evidence in a join, so that the join fits in an event: genuine evidence has 5,000 to 40,000 characters. */
const MOST_EVIDENCE = 49_152;

/** Evidence of the machine that joins. */
export const machineEvidence = field(
  `1 to ${MOST_EVIDENCE} characters of ASCII`,
  (json): json is string =>
    typeof json === 'string' && json.length <= MOST_EVIDENCE && /^[ -~]+$/.test(json),
)('evidence document of the machine that joins, see docs/attestation.md');

/** A MatFormer tier. */
export const tierField = field(`a tier from 0 to ${MOST_TIERS}`, isWithin(0, MOST_TIERS));

/** The index of a group of experts, or -1. */
export const groupIndex = field(
  `a whole number from -1 to ${MOST_EXPERTS - 1}`,
  isWithin(-1, MOST_EXPERTS - 1),
);

/** Sizes of rows, slice by slice. */
export const sizes = field(
  `a list of 1 to ${MOST_TIERS} numbers, none negative`,
  listOf(isSize, MOST_TIERS, 1),
);

const isPositive = (value: unknown): value is number => isSize(value) && value > 0;

/** Sizes of rows, slice by slice, in some rounds each. */
export const sizeLists = field(
  `a list of 1 to ${MOST_TIERS} lists of at most ${MOST_SIZES} numbers above 0`,
  listOf(listOf(isPositive, MOST_SIZES), MOST_TIERS, 1),
);

/** Yes or no. */
export const bit = field('0 or 1', (json): json is 0 | 1 => json === 0 || json === 1);

/** A round of the run, or -1. */
export const roundOrNone = field('a round, or -1', isWithin(-1));

const MEMBERS = ['content', 'created_at', 'id', 'kind', 'pubkey', 'sig', 'tags'];

const isEvent = (one: unknown): one is JsonObject =>
  isObject(one) && Object.keys(one).sort().join() === MEMBERS.join() && isHash(one.id);

/** A bounded list of possible events; their signatures and contents are checked with the join. */
export const joinProof = field(
  `a list of at most ${MOST_HOPS} events, ${MOST_PROOF} characters in all`,
  (json): json is readonly JsonObject[] =>
    listOf(isEvent, MOST_HOPS)(json) && canonicalJson(json).length <= MOST_PROOF,
)('the events that lead from a key that the spec names to the one that joins; none for a founder');

const MOST_PRIVATE = 2 ** 31;
const BUILD = /^[!-~](?:[ -~]{0,126}[!-~])?$/;

const isShard = (json: unknown): json is string =>
  typeof json === 'string' && parseShard(json) !== undefined;

/** Fields of a manifest about the private state that its steps start from. */
export const rerunCommitment = {
  root: digest('root of the private state after the inner phase, see docs/recomputation.md'),
  bytes: field(`a whole number from 1 to ${MOST_PRIVATE}`, isWithin(1, MOST_PRIVATE))('its length'),
  shard: field('a part like 2/4', isShard)('which part of the data the author trained on'),
  build: field(
    '1 to 128 characters of ASCII, no blanks around them',
    (json): json is string => typeof json === 'string' && BUILD.test(json),
  )('what the bits of its steps depend on: engine, machine, threads'),
} as const;

/** What rebuilds the event of a delegation, in addition to the run and the session key. */
export type Delegation = {
  /** The principal, in whose name the session key takes part. */
  readonly key: WorkerId;
  /** The last round in which the session key may take part. */
  readonly until: number;
  readonly createdAt: number;
  /** BIP-340, 128 hex digits. */
  readonly sig: string;
};

const MOST_ROUND = 0xffff_ffff;
const DELEGATION = ['createdAt', 'key', 'sig', 'until'];

/** The delegation in a join; null if the key takes part in its own name. */
export const delegationField: FeatureField<Delegation | null> = {
  accepted: 'null, or an object of key, until, createdAt and sig',
  doc:
    'which key delegated this one, up to which round, when, and its signature; null for no ' +
    'delegation',
  read: (json) => {
    if (json === null) return null;
    if (!isJsonObject(json) || Object.keys(json).sort().join() !== DELEGATION.join())
      return undefined;
    const { key, until, createdAt, sig } = json;
    const isSig = typeof sig === 'string' && fromHex(sig)?.length === 64;
    if (!isHash(key) || !isSig || !isWithin(0, MOST_ROUND)(until)) return undefined;
    if (!isWithin(1)(createdAt)) return undefined;
    return { key, until, createdAt, sig };
  },
};

interface Named {
  readonly key: WorkerId;
  readonly features?: { readonly sessions?: { readonly principal: WorkerId | '' } };
}

/**
 * Returns the key in whose name a member takes part: its stake and list entries count, and it is responsible for
 * faults.
 */
export const principalOf = ({ key, features }: Named): WorkerId =>
  features?.sessions?.principal || key;
