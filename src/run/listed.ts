/**
 * Joins, leaves and votes as an outcome lists them, with their signatures. From the outcome alone, each event can be
 * rebuilt and its signature checked, even if its author and every relay have deleted it.
 */

import { fromBase64, fromHex, toBase64, toHex } from '../base/bytes.ts';
import type { Json } from '../base/canonical-json.ts';
import { isWithin, listOf } from '../base/shape.ts';
import type { Digest, WorkerId } from './ids.ts';
import { JsonReader } from './json-reader.ts';
import { type FeatureSet, type FeatureValues, withFeatures } from './spec/features.ts';

/** What a signature covers in addition to the content: the dates of its event, in unix seconds. */
export interface Signature {
  readonly createdAt: number;
  readonly expiration: number;
  /** BIP-340, 128 hex digits. */
  readonly sig: string;
  /** The values of its `nonce` tag (NIP-13), if a relay required work. */
  readonly nonce?: readonly [string, string];
}

/** A commit, without what all commits of a certificate have in common. */
export interface ListedVote extends Signature {
  /** Index of its author in the roster of the round that it decided. */
  readonly index: number;
  readonly unlisted: readonly number[];
  readonly features?: FeatureValues<'vote'>;
}

/** A quorum of commits of the previous round. Their outcome is the parent, and `justify` is always -1. */
export interface ListedVotes {
  readonly attempt: number;
  readonly view: number;
  readonly ctx: Digest;
  /** In order of index. */
  readonly rows: readonly ListedVote[];
}

/** A join of the run. */
export interface ListedJoin extends Signature {
  readonly key: WorkerId;
  /** A recent outcome; the run id before there is one. */
  readonly after: Digest;
  /** Commitment to the author's reveal chain: its end. */
  readonly tip: Digest;
  /** Evidence required by the admission rule; empty if none is required. */
  readonly evidence: string;
  /** Fields of features. */
  readonly features?: FeatureValues<'join'>;
}

/** A leave of the run. */
export interface ListedLeave extends Signature {
  readonly key: WorkerId;
  readonly last: number;
}

/** Maximum number of unlisted manifests that a vote names. */
export const MOST_UNLISTED = 1024;
/** Maximum number of members or votes in one list. */
const MOST_LISTED = 4096;
const U32 = 0xffff_ffff;
const MOST_EVIDENCE = 256;

/** Text that all JSON writers encode the same way; empty for none. */
const isEvidence = (text: string): boolean =>
  text.length <= MOST_EVIDENCE && !/[\p{Cc}\p{Surrogate}]/u.test(text);

/** Indices in a roster, strictly ascending. */
const areIndices = (list: unknown): list is readonly number[] =>
  listOf(isIndex, MOST_UNLISTED)(list) && list.every((index, i) => i === 0 || list[i - 1]! < index);

const isSig = (text: string): boolean => fromHex(text)?.length === 64;

/** Returns votes as JSON: one array each, the signature in base64. */
export const votesJson = (votes: ListedVotes | null): Json =>
  votes && {
    attempt: votes.attempt,
    view: votes.view,
    ctx: votes.ctx,
    rows: votes.rows.map(({ index, createdAt, expiration, sig, unlisted, nonce, features }) => [
      index,
      createdAt,
      expiration,
      toBase64(fromHex(sig)!),
      unlisted,
      ...(nonce ? [nonce] : []),
      ...Object.values(withFeatures(features)),
    ]),
  };

/** Parses votes; undefined if they are invalid. */
export function readVotes(json: Json | undefined, set: FeatureSet): ListedVotes | null | undefined {
  if (json === null) return null;
  if (json === undefined) return undefined;
  const read = new JsonReader(json);
  const votes: ListedVotes = {
    attempt: read.integer('attempt', U32),
    view: read.integer('view', U32),
    ctx: read.hex32('ctx'),
    rows: read.list('rows', (row) => readVote(row, set), {
      most: MOST_LISTED,
      above: (a, b) => a.index > b.index,
    }),
  };
  return read.problem === undefined ? votes : undefined;
}

function readVote(json: Json, set: FeatureSet): ListedVote | undefined {
  if (!Array.isArray(json) || json.length < 5 || json.length > 7) return undefined;
  const [index, createdAt, expiration, sig, unlisted, ...rest] = json as readonly Json[];
  const nonce = readNonce(rest[0]);
  const [added, more] = nonce === undefined ? rest : rest.slice(1);
  const bytes = typeof sig === 'string' ? fromBase64(sig) : undefined;
  const features = set.read('vote', added);
  if (!isIndex(index) || !isMoment(createdAt) || !isMoment(expiration)) return undefined;
  if (expiration <= createdAt || more !== undefined) return undefined;
  if (bytes?.length !== 64 || !features.ok) return undefined;
  if (!areIndices(unlisted)) return undefined;
  const fields = { index, createdAt, expiration, sig: toHex(bytes), unlisted };
  return { ...fields, ...(nonce && { nonce }), ...withFeatures(features.value) };
}

/** Returns the values of a `nonce` tag; undefined for anything else. */
export function readNonce(json: unknown): readonly [string, string] | undefined {
  if (!Array.isArray(json) || json.length !== 2) return undefined;
  const [value, bits]: readonly unknown[] = json;
  const isNumber = (text: unknown): text is string =>
    typeof text === 'string' && /^(?:0|[1-9]\d{0,15})$/.test(text);
  return isNumber(value) && isNumber(bits) ? [value, bits] : undefined;
}

const isIndex = isWithin(0, 0xffff);
const isMoment = isWithin(1);

export const joinJson = ({ features, ...join }: ListedJoin): Json => ({
  ...join,
  ...withFeatures(features),
});

/** Parses a join; undefined if it is invalid. */
export function readJoin(json: Json, set: FeatureSet): ListedJoin | undefined {
  const read = new JsonReader(json);
  const join: ListedJoin = {
    key: read.hex32('key'),
    after: read.hex32('after'),
    tip: read.hex32('tip'),
    evidence: read.text('evidence', isEvidence),
    ...readSignature(read),
    ...withFeatures(read.features('join', set)),
  };
  return read.problem === undefined ? join : undefined;
}

/** Parses a leave; undefined if it is invalid. */
export function readLeave(json: Json): ListedLeave | undefined {
  const read = new JsonReader(json);
  const fields = { key: read.hex32('key'), last: read.integer('last', U32) };
  const leave: ListedLeave = { ...fields, ...readSignature(read) };
  return read.problem === undefined ? leave : undefined;
}

function readSignature(read: JsonReader): Signature {
  const createdAt = read.take('createdAt', (value) => (isMoment(value) ? value : undefined), 1);
  const expiration = read.take(
    'expiration',
    (value) => (isMoment(value) && value > createdAt ? value : undefined),
    2,
  );
  const nonce = read.take(
    'nonce',
    (value) => (value === undefined ? null : readNonce(value)),
    null,
  );
  return { createdAt, expiration, sig: read.text('sig', isSig), ...(nonce && { nonce }) };
}

/** Joins and leaves are listed in order of key, one per key. */
export const byKey = <T extends { readonly key: WorkerId }>() => ({
  most: MOST_LISTED,
  above: (a: T, b: T): boolean => a.key > b.key,
});
