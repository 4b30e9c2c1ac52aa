/**
 * The decision of a certified round: the body that committee members vote on and all workers apply. Its bytes are
 * canonical JSON, so equal outcomes have equal digests. Only form is checked here, not validity.
 */

import { concatBytes, fromBase64, fromHex, isHex32, toBase64, toHex, utf8 } from '../base/bytes.ts';
import { canonicalJson, type Json, parseJson } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import { isHash, isWithin } from '../base/shape.ts';
import type { Digest, EventId, WorkerId } from './ids.ts';
import { JsonReader } from './json-reader.ts';
import {
  byKey,
  joinJson,
  type ListedJoin,
  type ListedLeave,
  type ListedVotes,
  readJoin,
  readLeave,
  readVotes,
  votesJson,
} from './listed.ts';
import { type FeatureSet, type FeatureValues, withFeatures } from './spec/features.ts';

/** A manifest that counts. */
export interface AcceptedContribution {
  /** Index of its worker in the roster of the round, ascending by key. */
  readonly index: number;
  /** Made for the previous round; only if the run defers late contributions. */
  readonly late: boolean;
  /** Its payload is all zeros: it counts as seen, but earns no seat. */
  readonly empty?: boolean;
  readonly manifest: EventId;
}

/** A manifest that does not count, for a reason that any member can check. */
export interface RejectedContribution {
  readonly index: number;
  readonly manifest: EventId;
  readonly reason: string;
}

/** The decision of a certified round, which a quorum of the committee signs. */
export interface Outcome {
  readonly run: Digest;
  readonly round: number;
  /** Digest of the previous outcome; the run id in round 0. */
  readonly parent: Digest;
  /** Model root at the start of the round. */
  readonly base: Digest;
  /** A void outcome accepts nothing and leaves the model unchanged. */
  readonly result: 'final' | 'void';
  /** Unix seconds by the clock of the proposer. */
  readonly time: number;
  /** The key that proposed it first. */
  readonly proposer: WorkerId;
  /** Next link of the proposer's reveal chain; empty in round 0. */
  readonly reveal: Digest | '';
  /** In a recovery epoch: the view-change votes from which its committee was drawn. */
  readonly ballots: readonly EventId[];
  /** In order of index, a timely one before a late one. */
  readonly accepted: readonly AcceptedContribution[];
  /** In order of manifest. */
  readonly rejected: readonly RejectedContribution[];
  /** A quorum of commits of the previous round; null in round 0. */
  readonly votes: ListedVotes | null;
  /** In order of key. */
  readonly joins: readonly ListedJoin[];
  /** In order of key. */
  readonly leaves: readonly ListedLeave[];
  /** Ids of fault proofs. */
  readonly faults: readonly EventId[];
  /** Fields of features, such as the stake snapshot from here on. */
  readonly features: FeatureValues<'outcome'>;
  /** Typical root mean square of its contributions, which bounds those of later rounds; 0 if nothing was accepted. */
  readonly rowSize: number;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
}

/** Maximum number of rejected contributions in an outcome. */
const MOST_REJECTED = 256;
/** Maximum number of ids in any list of an outcome. */
const MOST_IDS = 4096;
const ROW_BYTES = 35;
/** Flags of an accepted row. */
const LATE = 1;
const EMPTY = 2;
const REASON = /^[a-z][a-z-]{0,31}$/;

/** Returns the canonical text of an outcome, which a proposal carries and the digest covers. */
export const outcomeBody = ({ features, ...outcome }: Outcome): string =>
  canonicalJson({
    ...outcome,
    accepted: toBase64(packRows(outcome.accepted)),
    rejected: outcome.rejected.map(({ index, manifest, reason }) => [index, manifest, reason]),
    votes: votesJson(outcome.votes),
    joins: outcome.joins.map(joinJson),
    leaves: outcome.leaves.map((leave) => ({ ...leave })),
    ...withFeatures(features),
  });

/** SHA-256 of `nostrain/outcome/2` and the body. */
export const outcomeDigest = (outcome: Outcome): Digest => bodyDigest(outcomeBody(outcome));

/** Returns the digest of a body. */
export const bodyDigest = (body: string): Digest =>
  sha256Hex(concatBytes(utf8('nostrain/outcome/2'), utf8(body)));

/** Encodes contributions: u16 index (big-endian), u8 flags late (1) and empty (2), 32 bytes of manifest id each. */
function packRows(rows: readonly AcceptedContribution[]): Uint8Array {
  const out = new Uint8Array(rows.length * ROW_BYTES);
  const view = new DataView(out.buffer);
  rows.forEach(({ index, late, empty, manifest }, i) => {
    const id = fromHex(manifest);
    if (id?.length !== 32) throw new RangeError(`${manifest} is not an event id`);
    if (index !== (index & 0xffff)) throw new RangeError(`${index} is not a u16`);
    view.setUint16(i * ROW_BYTES, index);
    view.setUint8(i * ROW_BYTES + 2, (late ? LATE : 0) | (empty ? EMPTY : 0));
    out.set(id, i * ROW_BYTES + 3);
  });
  return out;
}

/** Decodes contributions; undefined unless they are strictly ascending by index and lateness. */
function unpackRows(
  json: Json | undefined,
  defers: boolean,
): readonly AcceptedContribution[] | undefined {
  const bytes = typeof json === 'string' ? fromBase64(json) : undefined;
  if (bytes === undefined || bytes.length % ROW_BYTES !== 0) return undefined;
  const view = new DataView(bytes.buffer);
  const rows: AcceptedContribution[] = [];
  let last = -1;
  for (let at = 0; at < bytes.length; at += ROW_BYTES) {
    const flags = view.getUint8(at + 2);
    const late = flags & LATE;
    const position = view.getUint16(at) * 2 + late;
    if (flags > (LATE | EMPTY) || late > (defers ? 1 : 0) || position <= last) return undefined;
    last = position;
    const manifest = toHex(bytes.subarray(at + 3, at + ROW_BYTES));
    const empty = flags >= EMPTY && { empty: true };
    rows.push({ index: view.getUint16(at), late: late === LATE, ...empty, manifest });
  }
  return rows;
}

/** Parses an untrusted body in a run with these features. Checks only the form. */
export function parseOutcome(body: string, features: FeatureSet): Result<Outcome> {
  const json = parseJson(body);
  if (!json.ok) return json;
  const read = new JsonReader(json.value);
  const defers = features.names.includes('defer');
  const outcome: Outcome = {
    run: read.hex32('run'),
    round: read.integer('round', 0xffff_ffff),
    parent: read.hex32('parent'),
    base: read.hex32('base'),
    result: read.text('result', (text) => text === 'final' || text === 'void') as 'final' | 'void',
    time: read.integer('time', Number.MAX_SAFE_INTEGER),
    proposer: read.hex32('proposer'),
    reveal: read.text('reveal', (text) => text === '' || isHex32(text)),
    ballots: read.ids('ballots', MOST_IDS),
    accepted: read.take('accepted', (rows) => unpackRows(rows, defers), []),
    rejected: read.list('rejected', readRejected, {
      most: MOST_REJECTED,
      above: (a, b) => a.manifest > b.manifest,
    }),
    votes: read.take<ListedVotes | null>('votes', (votes) => readVotes(votes, features), null),
    joins: read.list('joins', (join) => readJoin(join, features), byKey<ListedJoin>()),
    leaves: read.list('leaves', readLeave, byKey<ListedLeave>()),
    faults: read.ids('faults', MOST_IDS),
    features: read.features('outcome', features),
    rowSize: read.take('rowSize', readSize, 0),
    modelRoot: read.hex32('modelRoot'),
    ledgerRoot: read.hex32('ledgerRoot'),
  };
  if (read.problem !== undefined) return refuse('bad-outcome', read.problem, 'not of its form');
  if (outcome.result === 'void' && outcome.accepted.length > 0) {
    return refuse('bad-outcome', 'accepted', 'a void outcome accepts nothing');
  }
  if (outcomeBody(outcome) !== body) {
    return refuse('bad-outcome', 'body', 'not canonical JSON of these members');
  }
  return ok(outcome);
}

/** A finite, non-negative number. */
const readSize = (json: Json | undefined): number | undefined =>
  typeof json === 'number' && Number.isFinite(json) && json >= 0 ? json : undefined;

function readRejected(json: Json): RejectedContribution | undefined {
  if (!Array.isArray(json) || json.length !== 3) return undefined;
  const [index, manifest, reason] = json as readonly Json[];
  if (!isWithin(0, 0xffff)(index)) return undefined;
  if (!isHash(manifest)) return undefined;
  if (typeof reason !== 'string' || !REASON.test(reason)) return undefined;
  return { index, manifest, reason };
}
