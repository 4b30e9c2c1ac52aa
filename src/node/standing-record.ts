/** Where a worker stands in a certified run, as JSON in its state file: ledgers by their canonical bytes, checked by their roots. */
import { isHex32, utf8 } from '../base/bytes.ts';
import type { Past } from '../certified/chain-state.ts';
import type { Standing } from '../certified/standing.ts';
import { type Ledger, ledgerBytes, ledgerRoot, parseLedger } from '../run/ledger.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A JSON value of it. */
export function formatStanding({ ledger, before, ...rest }: Standing): Fields {
  return {
    ...rest,
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
export function parseStanding(json: unknown): Standing | undefined {
  if (!isObject(json)) return undefined;
  const { run, round, parent, time, modelRoot, ledgerRoot: root, recent, votes, left = [] } = json;
  const ledger = parseKept(json.ledger);
  const before = json.before === null ? null : parsePast(json.before);
  if (!isDigest(run) || !isDigest(parent) || !isDigest(modelRoot) || !isDigest(root))
    return undefined;
  if (!isCount(round) || !isCount(time) || ledger === undefined || before === undefined) {
    return undefined;
  }
  if (!areDigests(recent) || !areDigests(votes) || !areDigests(left) || ledger.round !== round)
    return undefined;
  const place = { run, round, parent, time, ledger, modelRoot, ledgerRoot: root };
  return { ...place, before, recent, votes, left };
}

export const formatPast = (past: Past): Fields => ({ ...past, ledger: formatLedger(past.ledger) });

/** The same again; undefined when it is not whole. */
export function parsePast(json: unknown): Past | undefined {
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
  const ledger = parseLedger(utf8(json.text), json.root);
  return ledger.ok ? { ...ledger.value, entropy } : undefined;
}

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isDigest = (value: unknown): value is string => typeof value === 'string' && isHex32(value);
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;
const areDigests = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every(isDigest);
