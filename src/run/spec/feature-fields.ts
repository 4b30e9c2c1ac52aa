/** Readers for single fields that features add to contents of a run: bounded, in one written form, and refused for anything else. */
import { isHex32 } from '../../base/bytes.ts';
import type { Json } from '../../base/canonical-json.ts';
import type { Digest, WorkerId } from '../ids.ts';
import { MOST_TIERS } from './model-spec.ts';

/** A field of a content: plain JSON, whose canonical text is the written form. */
export interface FeatureField<T extends Json = Json> {
  /** The accepted form, in words that follow "it must be". */
  readonly accepted: string;
  readonly doc: string;
  /** The value, or undefined where the JSON value is none. */
  read(json: Json): T | undefined;
}

/** As many as a vote names as left out. */
const MOST_PLACES = 1024;
/** Largest score, and with a minus sign the score of what leads to no number at all. */
export const MOST_SCORE = 1_000_000_000;
/** Characters of a text that a worker reports, and of the name of its device. */
export const MOST_SAMPLE = 160;
export const MOST_DEVICE = 64;
/** Rounds whose rows bound those of the next. */
const MOST_SIZES = 8;
/** Rounds that a rolling score looks back on. */
export const MOST_SCORES = 8;

/** A hash. */
export const digest = (doc: string): FeatureField<Digest> => ({
  accepted: '64 lowercase hex digits',
  doc,
  read: (json) => (typeof json === 'string' && isHex32(json) ? json : undefined),
});

/** As many as a model has rings at most. */
const MOST_DIGESTS = MOST_TIERS + 1;

/** Hashes of one thing after the other. */
export const digests = (doc: string): FeatureField<readonly Digest[]> => ({
  accepted: `a list of 1 to ${MOST_DIGESTS} hashes, each of 64 lowercase hex digits`,
  doc,
  read: (json) => {
    if (!Array.isArray(json) || json.length === 0 || json.length > MOST_DIGESTS) return undefined;
    const list: readonly unknown[] = json;
    const areHashes = (hashes: readonly unknown[]): hashes is readonly string[] =>
      hashes.every((hash) => typeof hash === 'string' && isHex32(hash));
    return areHashes(list) ? list : undefined;
  },
});

/** A key, or the empty text. */
export const keyOrNone = (doc: string): FeatureField<WorkerId | ''> => ({
  accepted: 'a public key in hex, or empty',
  doc,
  read: (json) => (json === '' || (typeof json === 'string' && isHex32(json)) ? json : undefined),
});

/** Keys, each once. */
export const keysAscending = (doc: string): FeatureField<readonly WorkerId[]> => ({
  accepted: 'a list of public keys in hex, ascending',
  doc,
  read: (json) => {
    const isKeys = (list: readonly unknown[]): list is readonly string[] =>
      list.every((key) => typeof key === 'string' && isHex32(key));
    if (!Array.isArray(json) || !isKeys(json)) return undefined;
    return json.every((key, i) => i === 0 || json[i - 1]! < key) ? json : undefined;
  },
});

const isPlace = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= 0xffff;

/** Places in a roster, each once. */
export const places = (doc: string): FeatureField<readonly number[]> => ({
  accepted: `a list of at most ${MOST_PLACES} places in the roster, ascending`,
  doc,
  read: (json) => {
    if (!Array.isArray(json) || json.length > MOST_PLACES) return undefined;
    const list: readonly unknown[] = json;
    const arePlaces = (values: readonly unknown[]): values is readonly number[] =>
      values.every(isPlace);
    if (!arePlaces(list)) return undefined;
    return list.every((at, i) => i === 0 || list[i - 1]! < at) ? list : undefined;
  },
});

const isScore = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Math.abs(Number(value)) <= MOST_SCORE && !Object.is(value, -0);

/** Place and score of each. */
export type ScoredPlace = readonly [number, number];

/** A score for each of some places. */
export const scored = (doc: string): FeatureField<readonly ScoredPlace[]> => ({
  accepted: `a list of at most ${MOST_PLACES} pairs of a place, ascending, and a score`,
  doc,
  read: (json) => {
    if (!Array.isArray(json) || json.length > MOST_PLACES) return undefined;
    const list: readonly unknown[] = json;
    const arePairs = (pairs: readonly unknown[]): pairs is readonly ScoredPlace[] =>
      pairs.every((pair) => Array.isArray(pair) && pair.length === 2 && isScore(pair[1]));
    if (!arePairs(list)) return undefined;
    const isAscending = list.every(
      ([place], i) => isPlace(place) && (i === 0 || list[i - 1]![0] < place),
    );
    return isAscending ? list : undefined;
  },
});

/** Scores in the order they came. */
export const scoreList = (doc: string): FeatureField<readonly number[]> => ({
  accepted: `a list of at most ${MOST_SCORES} scores`,
  doc,
  read: (json) => {
    if (!Array.isArray(json) || json.length > MOST_SCORES) return undefined;
    const list: readonly unknown[] = json;
    return list.every(isScore) ? (list as readonly number[]) : undefined;
  },
});

/** Rounds for which the committees of the past are remembered: so long after it was listed a contribution may be found to fail its check. */
export const JURY_ROUNDS = 8;

/** The last rounds of something. */
export const lastRounds = (doc: string): FeatureField<readonly number[]> => ({
  accepted: `a list of at most ${JURY_ROUNDS} rounds, ascending`,
  doc,
  read: (json) => {
    if (!Array.isArray(json) || json.length > JURY_ROUNDS) return undefined;
    const list: readonly unknown[] = json;
    const areRounds = (values: readonly unknown[]): values is readonly number[] =>
      values.every((round) => Number.isSafeInteger(round) && Number(round) >= 0);
    if (!areRounds(list)) return undefined;
    return list.every((round, i) => i === 0 || list[i - 1]! < round) ? list : undefined;
  },
});

/** A measure in millionths. */
export const millionths = (doc: string): FeatureField<number | null> => ({
  accepted: 'a whole number, or null where there is none',
  doc,
  read: (json) =>
    json === null || Number.isSafeInteger(json) ? (json as number | null) : undefined,
});

const words = (doc: string, most: number): FeatureField<string> => ({
  accepted: `at most ${most} characters`,
  doc,
  read: (json) =>
    typeof json === 'string' && json.length <= most && json.isWellFormed() ? json : undefined,
});

/** What workers say of themselves, and of the shared parameters. */
export const measured = {
  device: words('what it trains on', MOST_DEVICE),
  shared: millionths(
    'validation loss of the shared parameters at the start of the round, in millionths',
  ),
  bits: millionths('the same in bits per byte of text, in millionths'),
  sample: words('text that the shared parameters write; empty where there is none', MOST_SAMPLE),
};

/** The same of pictures. */
export const hits = {
  right: millionths(
    'share of held-out pictures that the shared parameters have right at the start of the round, in millionths',
  ),
};

/** A tier of width. */
export const tierOfWidth = (doc: string): FeatureField<number> => ({
  accepted: `a tier from 0 to ${MOST_TIERS}`,
  doc,
  read: (json) =>
    typeof json === 'number' && Number.isSafeInteger(json) && json >= 0 && json <= MOST_TIERS
      ? json
      : undefined,
});

const isSize = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0;

/** How large rows are, ring by ring. */
export const sizes = (doc: string): FeatureField<readonly number[]> => ({
  accepted: `a list of 1 to ${MOST_TIERS} numbers, none negative`,
  doc,
  read: (json) => {
    if (!Array.isArray(json) || json.length === 0 || json.length > MOST_TIERS) return undefined;
    const list: readonly unknown[] = json;
    return list.every(isSize) ? (list as readonly number[]) : undefined;
  },
});

/** How large rows were, ring by ring, in some rounds each. */
export const sizeLists = (doc: string): FeatureField<readonly (readonly number[])[]> => ({
  accepted: `a list of 1 to ${MOST_TIERS} lists of at most ${MOST_SIZES} numbers above 0`,
  doc,
  read: (json) => {
    if (!Array.isArray(json) || json.length === 0 || json.length > MOST_TIERS) return undefined;
    const lists: readonly unknown[] = json;
    const areSizes = (list: unknown): list is readonly number[] =>
      Array.isArray(list) &&
      list.length <= MOST_SIZES &&
      list.every((size) => isSize(size) && size > 0);
    return lists.every(areSizes) ? lists : undefined;
  },
});

/** Yes or no. */
export const bit = (doc: string): FeatureField<0 | 1> => ({
  accepted: '0 or 1',
  doc,
  read: (json) => (json === 0 || json === 1 ? json : undefined),
});

/** A round of the run, or -1. */
export const roundAsked = (doc: string): FeatureField<number> => ({
  accepted: 'a round, or -1',
  doc,
  read: (json) =>
    typeof json === 'number' && Number.isSafeInteger(json) && json >= -1 ? json : undefined,
});
