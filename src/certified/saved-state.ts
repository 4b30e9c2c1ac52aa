/** What a certified worker keeps on disk beside the core's state, as JSON: ledgers by their canonical bytes, checked by their roots. */
import { isHex32, utf8 } from '../base/bytes.ts';
import type { Json } from '../base/canonical-json.ts';
import type { Departure } from '../consensus/round/roster-change.ts';
import { anyFeatures } from '../run/features.ts';
import { type Ledger, ledgerBytes, ledgerRoot, parseLedger } from '../run/ledger.ts';
import { readVotes, votesJson } from '../run/listed.ts';
import {
  type AddedMembers,
  type Fields,
  formatSent,
  isObject,
  parseSent,
  type WorkerRecord,
} from '../worker/worker-record.ts';
import type { ChainHead, Past } from './chain-state.ts';
import type { CertifiedState, Contributed } from './events.ts';

type Members = Pick<CertifiedState, 'head' | 'pending' | 'contributed'>;

/** Writes and reads what a `CertifiedState` adds. A state without a chain head is not one of a certified run. */
export const certifiedMembers: AddedMembers<Members> = {
  format(record: WorkerRecord & Partial<CertifiedState>) {
    const { head, pending, contributed } = record;
    return {
      head: head && formatChainHead(head),
      pending: pending && formatSent(pending),
      contributed: contributed?.map(({ sent, past, isOut }) => ({
        sent: formatSent(sent),
        past: formatPast(past),
        isOut,
      })),
    };
  },
  parse({ head: json, pending: waiting, contributed: list = [] }) {
    const head = parseChainHead(json);
    const pending = waiting === undefined ? undefined : parseSent(waiting);
    if (head === undefined || (waiting !== undefined && pending === undefined)) return undefined;
    if (!Array.isArray(list)) return undefined;
    const contributed = list.map(parseContributed).filter((each) => each !== undefined);
    return contributed.length === list.length ? { head, pending, contributed } : undefined;
  },
};

function parseContributed(json: unknown): Contributed | undefined {
  if (!isObject(json) || typeof json.isOut !== 'boolean') return undefined;
  const sent = parseSent(json.sent);
  const past = parsePast(json.past);
  return sent && past && { sent, past, isOut: json.isOut };
}

/** A JSON value of it. */
function formatChainHead({ ledger, before, votes, ...rest }: ChainHead): Fields {
  return {
    ...rest,
    votes: votesJson(votes),
    ledger: formatLedger(ledger),
    before: before && formatPast(before),
  };
}

/** The entropy is not among the canonical bytes. */
const formatLedger = (ledger: Ledger): Fields => ({
  text: new TextDecoder().decode(ledgerBytes(ledger)),
  root: ledgerRoot(ledger),
  entropy: ledger.entropy,
});

/** The same again; undefined when it is not whole. */
function parseChainHead(json: unknown): ChainHead | undefined {
  if (!isObject(json)) return undefined;
  const { run, round, parent, time, modelRoot, ledgerRoot: root, recent } = json;
  const { left = [], departed = [] } = json;
  const votes = readVotes(json.votes as Json | undefined, anyFeatures);
  const ledger = parseKept(json.ledger);
  const before = json.before === null ? null : parsePast(json.before);
  if (!isDigest(run) || !isDigest(parent) || !isDigest(modelRoot) || !isDigest(root))
    return undefined;
  if (!isCount(round) || !isCount(time) || ledger === undefined || before === undefined) {
    return undefined;
  }
  if (!areDigests(recent) || votes === undefined || !areDigests(left) || ledger.round !== round)
    return undefined;
  if (!Array.isArray(departed) || !departed.every(isDeparture)) return undefined;
  const place = { run, round, parent, time, ledger, modelRoot, ledgerRoot: root };
  return { ...place, before, recent, departed, votes, left };
}

const formatPast = (past: Past): Fields => ({ ...past, ledger: formatLedger(past.ledger) });

/** The same again; undefined when it is not whole. */
function parsePast(json: unknown): Past | undefined {
  if (!isObject(json)) return undefined;
  const { round, parent, base } = json;
  const ledger = parseKept(json.ledger);
  if (!isCount(round) || !isDigest(parent) || !isDigest(base) || !ledger) return undefined;
  return { round, parent, base, ledger };
}

function parseKept(json: unknown): Ledger | undefined {
  if (!isObject(json) || typeof json.text !== 'string' || !isDigest(json.root)) return undefined;
  const { entropy } = json;
  if (entropy !== null && !isDigest(entropy)) return undefined;
  const ledger = parseLedger(utf8(json.text), json.root, anyFeatures);
  return ledger.ok ? { ...ledger.value, entropy } : undefined;
}

const isDigest = (value: unknown): value is string => typeof value === 'string' && isHex32(value);
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;
const isDeparture = (value: unknown): value is Departure =>
  isObject(value) && isDigest(value.key) && isCount(value.round);
const areDigests = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every(isDigest);
