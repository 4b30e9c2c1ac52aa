/**
 * How a round ended: the body that committee members vote on and everybody applies. Its bytes are canonical JSON, so
 * the same outcome always has the same digest. What makes one valid is not decided here.
 */
import { concatBytes, fromBase64, fromHex, isHex32, toBase64, toHex, utf8 } from '../base/bytes.ts';
import { canonicalJson, type Json, parseJson } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import type { Digest, EventId, WorkerId } from './ids.ts';
import { isInteger, JsonReader } from './json-reader.ts';
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
  /** Made for the round before; only where the run defers. */
  readonly late: boolean;
  /** Its payload brings no value but zeros: it was seen, and earns no seat. */
  readonly empty?: boolean;
  readonly manifest: EventId;
}

/** A manifest that does not count, for a reason anybody can check. */
export interface RejectedContribution {
  readonly index: number;
  readonly manifest: EventId;
  readonly reason: string;
}

/** The decision of a certified round, which a quorum of the committee signs. */
export interface Outcome {
  readonly run: Digest;
  readonly round: number;
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
  /** Model root the round started from. */
  readonly base: Digest;
  /** A void one accepts nothing and leaves the model as it was. */
  readonly result: 'final' | 'void';
  /** Unix seconds by the clock of the proposer. */
  readonly time: number;
  /** Who proposed it first. */
  readonly proposer: WorkerId;
  /** Next link of the proposer's reveal chain; empty in round 0. */
  readonly reveal: Digest | '';
  /** Of a body made in a recovery epoch: the view-change votes its committee was drawn from. */
  readonly ballots: readonly EventId[];
  /** By index, one that is on time before a late one. */
  readonly accepted: readonly AcceptedContribution[];
  /** By manifest. */
  readonly rejected: readonly RejectedContribution[];
  /** A quorum of commits of the round before; null in round 0. */
  readonly votes: ListedVotes | null;
  /** By key. */
  readonly joins: readonly ListedJoin[];
  /** By key. */
  readonly leaves: readonly ListedLeave[];
  /** Ids of fault proofs. */
  readonly faults: readonly EventId[];
  /** What features of the run add: the table of stakes from here on. */
  readonly features: FeatureValues<'outcome'>;
  /** Typical root mean square of its rows, which bounds the rows of later rounds; 0 where nothing was accepted. */
  readonly rowSize: number;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
}

/** The most rejected rows an outcome has. */
const MOST_REJECTED = 256;
/** The most ids in any list of an outcome. */
const MOST_IDS = 4096;
const ROW_BYTES = 35;
/** Flags of an accepted row. */
const LATE = 1;
const EMPTY = 2;
const REASON = /^[a-z][a-z-]{0,31}$/;

/** The canonical text of an outcome: what a proposal carries and a digest is over. */
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

/** The same of a body that is still text. */
export const bodyDigest = (body: string): Digest =>
  sha256Hex(concatBytes(utf8('nostrain/outcome/2'), utf8(body)));

/** Rows as bytes: u16 index (big-endian), u8 late (1) and empty (2), 32 bytes of manifest id each. */
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

/** Rows in strictly ascending order of index and lateness, or undefined. */
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

/** The outcome of a body from anyone in a run with these features, or why it is none. Only form is judged. */
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

/** A finite number that is not negative. */
const readSize = (json: Json | undefined): number | undefined =>
  typeof json === 'number' && Number.isFinite(json) && json >= 0 ? json : undefined;

function readRejected(json: Json): RejectedContribution | undefined {
  if (!Array.isArray(json) || json.length !== 3) return undefined;
  const [index, manifest, reason] = json as readonly Json[];
  if (!isInteger(index, 0xffff)) return undefined;
  if (typeof manifest !== 'string' || !isHex32(manifest)) return undefined;
  if (typeof reason !== 'string' || !REASON.test(reason)) return undefined;
  return { index, manifest, reason };
}
