/**
 * What a run remembers beside the model: round, roster, entropy, stake snapshot. Together with the model it is the
 * state that a committee certifies, so whoever joins can go on from both without the past. Its bytes are canonical
 * JSON.
 */
import { concatBytes, isHex32, utf8 } from '../base/bytes.ts';
import { canonicalJson, type Json, type JsonObject, parseJson } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import type { Digest, WorkerId } from './ids.ts';
import { idsOf, JsonReader } from './json-reader.ts';
import { type FeatureSet, type FeatureValues, withFeatures } from './spec/features.ts';

/** A key in the roster. */
export interface Member {
  readonly key: WorkerId;
  /** End of its reveal chain; null until an outcome lists its join. */
  readonly tip: Digest | null;
  /** The first round whose roster has it; 0 for founders. */
  readonly joined: number;
  /** The last final outcome that saw it: accepted its work, or lists its vote. -1 for none. */
  readonly lastSeen: number;
  /** The same before the last outcome of all. */
  readonly seenBefore: number;
  /**
   * The first round in which it may have a seat: 0 for founders, for others two rounds after the outcome that first
   * accepted a contribution of theirs that was not empty; -1 before.
   */
  readonly seatFrom: number;
  /** What features add to its row. */
  readonly features?: FeatureValues<'member'>;
}

/** The state of a certified run between two rounds, apart from the model. */
export interface Ledger {
  /** The round to come. */
  readonly round: number;
  /**
   * Of this round; null while its beacon is not known. Not among the bytes: it follows from `mixed` and the beacon,
   * which comes after the outcome that the bytes are certified by.
   */
  readonly entropy: Digest | null;
  /** What the outcome before gave to the entropy; null in round 0. */
  readonly mixed: { readonly entropy: Digest; readonly reveal: Digest | '' } | null;
  /** Outer steps taken: final outcomes so far. */
  readonly steps: number;
  /** The roster, ascending by key. */
  readonly members: readonly Member[];
  /** Keys proven to have signed two things in one place; they cannot come back. Ascending. */
  readonly faulted: readonly WorkerId[];
  /** Rounds of the last final outcomes, ascending; as many as liveness and absence look back on. */
  readonly finals: readonly number[];
  /** Root mean squares of the rows of the last accepting outcomes, oldest first; they bound the next rows. */
  readonly rowSizes: readonly number[];
  /** Whose view-change votes the last outcome lists, ascending; null where it needed none. */
  readonly ballots: readonly WorkerId[] | null;
  /** What features of the run add: tables of stakes, late contributions. */
  readonly features: FeatureValues<'ledger'>;
}

/** The table of stakes that holds in the round to come, and in the one after it; null in a run without. */
export const snapshotOf = ({ features }: Ledger): Digest | null => features.stake?.snapshot ?? null;
/** Returns the digest of the stake table that holds in the round after the coming one; null in a run without stakes. */
export const nextSnapshotOf = ({ features }: Ledger): Digest | null => features.stake?.next ?? null;

/** Whose contribution to the last round may still be listed, late; ascending. */
export const lateOf = ({ features }: Ledger): readonly WorkerId[] => features.defer?.late ?? [];

/** The most keys of a roster: an outcome names them by u16. */
const MOST_MEMBERS = 65_536;
/** Largest canonical form that is read. */
const MAX_LEDGER_BYTES = 32 << 20;

/** The canonical bytes: JSON of all but the entropy, members as arrays in the order above, features at the end. */
export const ledgerBytes = (ledger: Ledger): Uint8Array => utf8(canonicalJson(toJson(ledger)));

/** SHA-256 of `nostrain/ledger/2` and the canonical bytes. */
export const ledgerRoot = (ledger: Ledger): Digest => bytesRoot(ledgerBytes(ledger));

const bytesRoot = (bytes: Uint8Array): Digest =>
  sha256Hex(concatBytes(utf8('nostrain/ledger/2'), bytes));

function toJson(ledger: Ledger): JsonObject {
  const { entropy: _, members, mixed, features, ...rest } = ledger;
  return {
    ...rest,
    mixed: mixed && { ...mixed },
    ...withFeatures(features),
    members: members.map(
      ({ key, tip, joined, lastSeen, seenBefore, seatFrom, features: added }) => [
        key,
        tip,
        joined,
        lastSeen,
        seenBefore,
        seatFrom,
        ...Object.values(withFeatures(added)),
      ],
    ),
  };
}

/** The ledger of bytes from anyone, its entropy left open, if they are those of this root. */
export function parseLedger(bytes: Uint8Array, root: Digest, features: FeatureSet): Result<Ledger> {
  if (bytes.length > MAX_LEDGER_BYTES) {
    return refuse('too-large', 'ledger', `${bytes.length} bytes, at most ${MAX_LEDGER_BYTES}`);
  }
  if (bytesRoot(bytes) !== root) return refuse('wrong-root', 'ledger', `not the ledger of ${root}`);
  const json = parseJson(new TextDecoder().decode(bytes));
  if (!json.ok) return json;
  const ledger = fromJson(json.value, features);
  // what a committee certified is well formed unless its members are all wrong
  return ledger !== undefined && bytesRoot(ledgerBytes(ledger)) === root
    ? ok(ledger)
    : refuse('bad-ledger', 'ledger', 'not a ledger in canonical form');
}

function fromJson(said: Json, set: FeatureSet): Ledger | undefined {
  const read = new JsonReader(said);
  const inAnyOrder = { most: MOST_MEMBERS, above: () => true };
  const ledger: Ledger = {
    entropy: null,
    round: read.integer('round', Number.MAX_SAFE_INTEGER),
    steps: read.integer('steps', Number.MAX_SAFE_INTEGER),
    mixed: read.take('mixed', readMixed, null),
    members: read.list('members', (row) => readMember(row, set), {
      most: MOST_MEMBERS,
      above: (a, b) => a.key > b.key,
    }),
    faulted: read.ids('faulted', MOST_MEMBERS),
    finals: read.list('finals', (round) => whole(round, 0), inAnyOrder),
    rowSizes: read.list('rowSizes', sizeOf, inAnyOrder),
    ballots: read.take(
      'ballots',
      (keys) => (keys === null ? null : idsOf(keys, MOST_MEMBERS)),
      null,
    ),
    features: read.features('ledger', set),
  };
  return read.problem === undefined ? ledger : undefined;
}

const ROW = ['key', 'tip', 'joined', 'lastSeen', 'seenBefore', 'seatFrom', 'features'];

function readMember(json: Json, set: FeatureSet): Member | undefined {
  if (!Array.isArray(json) || json.length < 6 || json.length > ROW.length) return undefined;
  const row: readonly Json[] = json;
  const read = new JsonReader(Object.fromEntries(row.map((value, i) => [ROW[i]!, value])));
  const round = (name: string, least: number): number =>
    read.take(name, (value) => whole(value, least), least);
  const member: Member = {
    key: read.hex32('key'),
    tip: row[1] === null ? null : read.hex32('tip'),
    joined: round('joined', 0),
    lastSeen: round('lastSeen', -1),
    seenBefore: round('seenBefore', -1),
    seatFrom: round('seatFrom', -1),
    ...withFeatures(read.features('member', set)),
  };
  return read.problem === undefined ? member : undefined;
}

function readMixed(json: Json | undefined): Ledger['mixed'] | undefined {
  if (json === null || json === undefined) return json;
  const read = new JsonReader(json);
  const isReveal = (text: string) => text === '' || isHex32(text);
  const mixed = { entropy: read.hex32('entropy'), reveal: read.text('reveal', isReveal) };
  return read.problem === undefined ? mixed : undefined;
}

const sizeOf = (json: Json): number | undefined =>
  typeof json === 'number' && Number.isFinite(json) && json > 0 ? json : undefined;

const whole = (json: Json | undefined, least: number): number | undefined =>
  typeof json === 'number' && Number.isSafeInteger(json) && json >= least ? json : undefined;
