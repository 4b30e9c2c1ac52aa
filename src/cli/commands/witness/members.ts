/**
 * Reads the members file of `nostrain witness`: JSON lines or an array of `{"key": …, "stake": …}`, also as `rows` or
 * `members` of an object. Keys are hex or npub; a key without a stake weighs 1.
 */
import { readFile } from 'node:fs/promises';
import { isJsonObject, type Json, parseJson } from '../../../base/canonical-json.ts';
import { ConfigError } from '../../../base/errors.ts';
import { readKey } from '../../../run/field.ts';
import type { WorkerId } from '../../../run/ids.ts';

const MOST_STAKE = 2n ** 128n - 1n;
const FORM =
  'use one JSON object per line, like {"key": "<64 hex digits or npub>", "stake": "1000"}';

/** Returns stake by key, without zero stakes. Throws `members/file` if a row is invalid. */
export async function readMembers(file: string): Promise<ReadonlyMap<WorkerId, bigint>> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('members/file', `cannot read the members file ${file}`, {
      hint: `name an existing file; ${FORM}`,
      cause,
    });
  });
  const stakes = new Map<WorkerId, bigint>();
  const known = new Set<WorkerId>();
  rowsOf(text, file).forEach((row, i) => {
    const refuse = (what: string) =>
      new ConfigError('members/file', `${file}: member ${i + 1} ${what}`, { hint: FORM });
    if (!isJsonObject(row)) throw refuse('is not an object');
    const key = readKey(row.key);
    if (key === undefined) throw refuse('has no public key');
    if (known.has(key)) throw refuse(`repeats the key ${key}`);
    const stake = readStake(row.stake);
    if (stake === undefined) throw refuse('has a stake that is not from 0 to 2^128 - 1');
    known.add(key);
    if (stake > 0n) stakes.set(key, stake);
  });
  if (stakes.size === 0) {
    throw new ConfigError('members/file', `${file} has no member with a stake`, { hint: FORM });
  }
  return stakes;
}

function rowsOf(text: string, file: string): readonly Json[] {
  const whole = parseJson(text);
  if (whole.ok) {
    const value = whole.value;
    if (!isJsonObject(value)) return Array.isArray(value) ? value : [value];
    const rows = value.rows ?? value.members;
    return Array.isArray(rows) ? rows : [value];
  }
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line, i) => {
    const row = parseJson(line);
    if (row.ok) return row.value;
    throw new ConfigError('members/file', `${file}: line ${i + 1} is not JSON`, { hint: FORM });
  });
}

function readStake(json: Json | undefined): bigint | undefined {
  if (json === undefined) return 1n;
  const isExact = typeof json === 'number' && Number.isSafeInteger(json) && json >= 0;
  const isDecimal = typeof json === 'string' && /^\d{1,39}$/.test(json);
  if (!isExact && !isDecimal) return undefined;
  const stake = BigInt(json);
  return stake <= MOST_STAKE ? stake : undefined;
}

/** Largest index of a round or recovery epoch: both are u32. */
export const U32 = 2 ** 32 - 1;
/** Maximum seats: an outcome refers to keys by u16. */
export const MOST_SEATS = 65_536;
