/** Stake snapshots as JSON that people read and keep in files; the id inside is that of the canonical bytes. */

import { canonicalJson, isJsonObject, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse, safeJson } from '../../base/errors.ts';
import {
  MAX_STAKE_ROWS,
  type StakeRow,
  type StakeSnapshot,
  snapshotId,
  snapshotIssue,
  totalStake,
} from './stake-snapshot.ts';

/** Longest file there can be, with room for spaces. */
const MAX_STAKE_JSON = 64 * 1024 * 1024;
const MEMBERS = 'blockHash chain height id params rows strategy total unit'.split(' ');

/** The document, two spaces of indent, one row per line. */
export function formatStakeJson(snapshot: StakeSnapshot): string {
  const { chain, strategy, params, height, blockHash, unit, rows } = snapshot;
  const text = safeJson;
  const lines = rows.map(({ key, stake }) => `    { "key": "${key}", "stake": "${stake}" }`);
  return `${[
    '{',
    `  "id": ${text(snapshotId(snapshot))},`,
    `  "chain": ${text(chain)},`,
    `  "strategy": ${text(strategy)},`,
    `  "params": ${params},`,
    `  "height": ${height},`,
    `  "blockHash": ${text(blockHash)},`,
    `  "unit": ${text(unit)},`,
    `  "total": ${text(String(totalStake(snapshot)))},`,
    lines.length === 0 ? '  "rows": []' : `  "rows": [\n${lines.join(',\n')}\n  ]`,
    '}',
  ].join('\n')}\n`;
}

/** A document from anyone: every member checked, unknown ones refused, and the id and the total must be those of the rows. */
export function parseStakeJson(text: string): Result<StakeSnapshot> {
  const broken = (at: string, message: string) => refuse('bad-snapshot', at, `${at} ${message}`);
  if (text.length > MAX_STAKE_JSON) return broken('the document', 'is too long');
  const parsed = parseJson(text);
  if (!parsed.ok || !isJsonObject(parsed.value)) return broken('the document', 'is not JSON');
  const json = parsed.value;
  const odd = Object.keys(json).find((key) => !MEMBERS.includes(key));
  if (odd !== undefined) return broken(odd, 'is not a member of a stake snapshot');
  const missing = MEMBERS.find((key) => !(key in json));
  if (missing !== undefined) return broken(missing, 'is missing');
  const { id, chain, strategy, params, height, blockHash, unit, total, rows } = json;
  if (typeof height !== 'number') return broken('height', 'is not a whole number');
  if (!isJsonObject(params)) return broken('params', 'is not a JSON object');
  if (!Array.isArray(rows) || rows.length > MAX_STAKE_ROWS) {
    return broken('rows', `is not a list of at most ${MAX_STAKE_ROWS}`);
  }
  const table: StakeRow[] = [];
  for (const [i, row] of rows.entries()) {
    const read = readRow(row);
    if (read === undefined)
      return broken(`rows.${i}`, 'is not { "key": hex, "stake": decimal text }');
    table.push(read);
  }
  const snapshot: StakeSnapshot = {
    chain: asText(chain),
    strategy: asText(strategy),
    params: canonicalJson(params),
    height,
    blockHash: asText(blockHash),
    unit: asText(unit),
    rows: table,
  };
  const issue = snapshotIssue(snapshot);
  if (issue !== undefined) return refuse('bad-snapshot', issue.at, issue.message);
  const sum = String(totalStake(snapshot));
  if (total !== sum) return broken('total', `is not ${sum}, which the rows sum up to`);
  const real = snapshotId(snapshot);
  return id === real ? ok(snapshot) : broken('id', `is not ${real}, to which the document hashes`);
}

/** What is not text becomes what no field accepts. */
const asText = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

/** Parameters as canonical JSON text. */
export const stakeParams = (params: Readonly<Record<string, string | number>>): string =>
  canonicalJson(params);

/** A row as written: decimal text without sign or leading zero. */
function readRow(row: Json): StakeRow | undefined {
  if (!isJsonObject(row) || Object.keys(row).length !== 2) return undefined;
  const { key, stake } = row;
  if (typeof key !== 'string' || typeof stake !== 'string') return undefined;
  return /^[1-9]\d{0,38}$/.test(stake) ? { key, stake: BigInt(stake) } : undefined;
}
