/**
 * How a round ended: the body that committee members vote on and everybody applies. Its bytes are canonical JSON, so the
 * same outcome always has the same digest. What makes one valid is not decided here.
 */
import { concatBytes, fromBase64, fromHex, isHex32, toBase64, toHex, utf8 } from '../base/bytes.ts';
import { canonicalJson, isJsonObject, type Json, parseJson } from '../base/canonical-json.ts';
import { sha256Hex } from '../base/hash.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { Digest, EventId, WorkerId } from './ids.ts';

/** A manifest that counts. */
export interface AcceptedRow {
  /** Place of its worker in the roster of the round, ascending by key. */
  readonly index: number;
  /** Made for the round before. */
  readonly late: boolean;
  readonly manifest: EventId;
}

/** A manifest that does not count, for a reason anybody can check. */
export interface RejectedRow {
  readonly index: number;
  readonly manifest: EventId;
  readonly reason: string;
}

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
  /** Of a body made in a recovery attempt: the ballots its committee was drawn from. */
  readonly ballots: readonly EventId[];
  /** By index, one that is on time before a late one. */
  readonly accepted: readonly AcceptedRow[];
  /** By manifest. */
  readonly rejected: readonly RejectedRow[];
  /** A quorum of commits of the round before. */
  readonly votes: readonly EventId[];
  readonly joins: readonly EventId[];
  readonly leaves: readonly EventId[];
  readonly faults: readonly EventId[];
  /** The stake snapshot from here on; empty where there is none. */
  readonly snapshot: Digest | '';
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
}

/** The most rejected rows an outcome has. */
const MOST_REJECTED = 256;
/** The most ids in any list of an outcome. */
const MOST_IDS = 4096;
const ROW_BYTES = 35;
const REASON = /^[a-z][a-z-]{0,31}$/;

/** The canonical text of an outcome: what a proposal carries and a digest is over. */
export const outcomeBody = (outcome: Outcome): string =>
  canonicalJson({
    ...outcome,
    accepted: toBase64(packRows(outcome.accepted)),
    rejected: outcome.rejected.map(({ index, manifest, reason }) => [index, manifest, reason]),
  });

/** SHA-256 of `nostrain/outcome/1` and the body. */
export const outcomeDigest = (outcome: Outcome): Digest => bodyDigest(outcomeBody(outcome));

/** The same of a body that is still text. */
export const bodyDigest = (body: string): Digest =>
  sha256Hex(concatBytes(utf8('nostrain/outcome/1'), utf8(body)));

/** Rows as bytes: u16 index (big-endian), u8 late, 32 bytes of manifest id each. */
function packRows(rows: readonly AcceptedRow[]): Uint8Array {
  const out = new Uint8Array(rows.length * ROW_BYTES);
  const view = new DataView(out.buffer);
  rows.forEach(({ index, late, manifest }, i) => {
    const id = fromHex(manifest);
    if (id?.length !== 32) throw new RangeError(`${manifest} is not an event id`);
    if (index !== (index & 0xffff)) throw new RangeError(`${index} is not a u16`);
    view.setUint16(i * ROW_BYTES, index);
    view.setUint8(i * ROW_BYTES + 2, late ? 1 : 0);
    out.set(id, i * ROW_BYTES + 3);
  });
  return out;
}

/** Rows in strictly ascending order of index and lateness, or undefined. */
function unpackRows(text: string): readonly AcceptedRow[] | undefined {
  const bytes = fromBase64(text);
  if (bytes === undefined || bytes.length % ROW_BYTES !== 0) return undefined;
  const view = new DataView(bytes.buffer);
  const rows: AcceptedRow[] = [];
  let last = -1;
  for (let at = 0; at < bytes.length; at += ROW_BYTES) {
    const late = view.getUint8(at + 2);
    const place = view.getUint16(at) * 2 + late;
    if (late > 1 || place <= last) return undefined;
    last = place;
    const manifest = toHex(bytes.subarray(at + 3, at + ROW_BYTES));
    rows.push({ index: view.getUint16(at), late: late === 1, manifest });
  }
  return rows;
}

/** The outcome of a body from anyone, or why it is none. Only form is judged. */
export function parseOutcome(body: string): Result<Outcome> {
  const json = parseJson(body);
  if (!json.ok) return json;
  const said = json.value;
  if (!isJsonObject(said)) return refuse('bad-outcome', 'body', 'not an object');
  const read = new Reader(said);
  const outcome: Outcome = {
    run: read.hex32('run'),
    round: read.integer('round', 0xffff_ffff),
    parent: read.hex32('parent'),
    base: read.hex32('base'),
    result: read.text('result', (text) => text === 'final' || text === 'void') as 'final' | 'void',
    time: read.integer('time', Number.MAX_SAFE_INTEGER),
    proposer: read.hex32('proposer'),
    reveal: read.text('reveal', isDigestOrEmpty),
    ballots: read.ids('ballots'),
    accepted: read.rows(),
    rejected: read.rejected(),
    votes: read.ids('votes'),
    joins: read.ids('joins'),
    leaves: read.ids('leaves'),
    faults: read.ids('faults'),
    snapshot: read.text('snapshot', isDigestOrEmpty),
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

const isDigestOrEmpty = (text: string): boolean => text === '' || isHex32(text);

/** Reads members one by one; the name of the first bad one stays. */
class Reader {
  problem: string | undefined;
  readonly #said: { readonly [key: string]: Json };

  constructor(said: { readonly [key: string]: Json }) {
    this.#said = said;
  }

  text(key: string, isGood: (text: string) => boolean): string {
    const value = this.#said[key];
    if (typeof value === 'string' && isGood(value)) return value;
    this.problem ??= key;
    return '';
  }

  hex32(key: string): string {
    return this.text(key, isHex32);
  }

  integer(key: string, most: number): number {
    const value = this.#said[key];
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most) {
      return value;
    }
    this.problem ??= key;
    return 0;
  }

  /** Event ids, ascending and distinct. */
  ids(key: string): readonly EventId[] {
    const value = this.#said[key];
    const list: readonly Json[] = Array.isArray(value) ? value : [null];
    const good = list.filter((id) => typeof id === 'string' && isHex32(id)) as EventId[];
    const isAscending = good.every((id, i) => i === 0 || good[i - 1]! < id);
    if (good.length === list.length && good.length <= MOST_IDS && isAscending) return good;
    this.problem ??= key;
    return [];
  }

  rows(): readonly AcceptedRow[] {
    const rows = unpackRows(this.text('accepted', () => true));
    if (rows === undefined) this.problem ??= 'accepted';
    return rows ?? [];
  }

  rejected(): readonly RejectedRow[] {
    const value = this.#said.rejected;
    const list: readonly Json[] = Array.isArray(value) ? value : [null];
    const rows = list.map(readRejected).filter((row) => row !== undefined);
    const isAscending = rows.every((row, i) => i === 0 || rows[i - 1]!.manifest < row.manifest);
    if (rows.length === list.length && rows.length <= MOST_REJECTED && isAscending) return rows;
    this.problem ??= 'rejected';
    return [];
  }
}

function readRejected(json: Json): RejectedRow | undefined {
  if (!Array.isArray(json) || json.length !== 3) return undefined;
  const [index, manifest, reason] = json as readonly Json[];
  if (typeof index !== 'number' || index !== (index & 0xffff)) return undefined;
  if (typeof manifest !== 'string' || !isHex32(manifest)) return undefined;
  if (typeof reason !== 'string' || !REASON.test(reason)) return undefined;
  return { index, manifest, reason };
}
