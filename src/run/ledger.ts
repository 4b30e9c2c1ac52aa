/**
 * The state of a run apart from the model: round, roster, entropy, stake snapshot. A committee certifies ledger and
 * model, so newcomers can continue from both without the history. Its bytes are canonical JSON.
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
  /** First round whose roster includes it; 0 for founders. */
  readonly joined: number;
  /** The last final outcome that accepted its work or lists its vote; -1 for none. */
  readonly lastSeen: number;
  /** The value of `lastSeen` before the last outcome. */
  readonly seenBefore: number;
  /**
   * First round in which it may have a seat: 0 for founders; for others two rounds after the outcome that accepted
   * their first non-empty contribution; -1 before that.
   */
  readonly seatFrom: number;
  /** Fields of features in its row. */
  readonly features?: FeatureValues<'member'>;
}

/** The state of a certified run between two rounds, apart from the model. */
export interface Ledger {
  /** The coming round. */
  readonly round: number;
  /**
   * Randomness of this round; null until its beacon is known. Not part of the bytes: it follows from `mixed` and the
   * beacon, which is only known after the outcome that certifies the bytes.
   */
  readonly entropy: Digest | null;
  /** What the previous outcome contributed to the entropy; null in round 0. */
  readonly mixed: { readonly entropy: Digest; readonly reveal: Digest | '' } | null;
  /** Outer steps taken: final outcomes so far. */
  readonly steps: number;
  /** The roster, ascending by key. */
  readonly members: readonly Member[];
  /** Keys proven to have contradicted themselves; they cannot return. Ascending. */
  readonly faulted: readonly WorkerId[];
  /** Rounds of the last final outcomes, ascending; as many as the liveness and absence rules look back. */
  readonly finals: readonly number[];
  /** Root mean squares of the contributions of the last accepting outcomes, oldest first; they bound the next ones. */
  readonly rowSizes: readonly number[];
  /** Authors of the view-change votes that the last outcome lists, ascending; null if it needed none. */
  readonly ballots: readonly WorkerId[] | null;
  /** Fields of features: stake snapshots, late contributions. */
  readonly features: FeatureValues<'ledger'>;
}

/** Returns the stake snapshot of the coming round; null in a run without stakes. */
export const snapshotOf = ({ features }: Ledger): Digest | null => features.stake?.snapshot ?? null;
/** Returns the stake snapshot of the round after the coming one; null in a run without stakes. */
export const nextSnapshotOf = ({ features }: Ledger): Digest | null => features.stake?.next ?? null;

/** Returns the workers whose contribution to the last round may still be listed, late; ascending. */
export const lateOf = ({ features }: Ledger): readonly WorkerId[] => features.defer?.late ?? [];

/** Returns the positions of deleted notes that workers leave out in the coming round; ascending. */
export const deletedOf = ({ features }: Ledger): readonly number[] => features.notes?.deleted ?? [];

/** Maximum roster size: an outcome refers to keys by u16. */
const MOST_MEMBERS = 65_536;
/** Maximum size of a ledger that is parsed. */
const MAX_LEDGER_BYTES = 32 << 20;

/**
 * Returns the canonical bytes: JSON of everything but the entropy, members as arrays in the order above, features last.
 */
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

/** Parses untrusted bytes into a ledger without entropy. Refuses bytes that do not match this root. */
export function parseLedger(bytes: Uint8Array, root: Digest, features: FeatureSet): Result<Ledger> {
  if (bytes.length > MAX_LEDGER_BYTES) {
    return refuse('too-large', 'ledger', `${bytes.length} bytes, at most ${MAX_LEDGER_BYTES}`);
  }
  if (bytesRoot(bytes) !== root) return refuse('wrong-root', 'ledger', `not the ledger of ${root}`);
  const json = parseJson(new TextDecoder().decode(bytes));
  if (!json.ok) return json;
  const ledger = fromJson(json.value, features);
  // certified bytes are well formed unless all members are wrong
  return ledger !== undefined && bytesRoot(ledgerBytes(ledger)) === root
    ? ok(ledger)
    : refuse('bad-ledger', 'ledger', 'not a ledger in canonical form');
}

function fromJson(json: Json, set: FeatureSet): Ledger | undefined {
  const read = new JsonReader(json);
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
