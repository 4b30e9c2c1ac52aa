/** Parses a hand-written stake list: one key and one whole number per line. */
import { decode } from 'nostr-tools/nip19';
import { isHex32 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import type { WorkerId } from '../run/ids.ts';
import { MAX_STAKE, type StakeSnapshot, stakeRows } from '../run/stake/stake-snapshot.ts';

function readKey(text: string): WorkerId | undefined {
  if (isHex32(text)) return text;
  try {
    const decoded = decode(text);
    return decoded.type === 'npub' ? decoded.data : undefined;
  } catch {
    return undefined;
  }
}

/** Lines of text that say something: blanks around them and what follows a # are dropped. */
const linesOf = (text: string): readonly (readonly [line: number, words: readonly string[]])[] =>
  text.split('\n').flatMap((line, i) => {
    const words = line
      .replace(/#.*/, '')
      .split(/[\s,;]+/)
      .filter((word) => word !== '');
    return words.length === 0 ? [] : [[i + 1, words] as const];
  });

export function parseKeyList(text: string): Result<readonly WorkerId[]> {
  const keys: WorkerId[] = [];
  for (const [line, [word = '', ...more]] of linesOf(text)) {
    const key = readKey(word);
    if (key === undefined || more.length > 0)
      return refuse('bad-list', `line ${line}`, 'not one npub or hex key');
    keys.push(key);
  }
  return keys.length > 0 ? ok(keys) : refuse('bad-list', 'the list', 'no key in it');
}

/** A snapshot of a list: `npub1… 100` per line; nobody twice. It is of no chain, so nobody can re-derive it. */
export function parseStakeList(text: string, unit: string): Result<StakeSnapshot> {
  const stakes = new Map<WorkerId, bigint>();
  for (const [line, [word = '', amount = '', ...more]] of linesOf(text)) {
    const at = `line ${line}`;
    const key = readKey(word);
    if (key === undefined) return refuse('bad-list', at, `${word} is no npub and no hex key`);
    if (!/^\d{1,39}$/.test(amount) || BigInt(amount) > MAX_STAKE || more.length > 0) {
      return refuse('bad-list', at, 'after the key comes one whole number below 2^128');
    }
    if (stakes.has(key)) return refuse('bad-list', at, `${word} is in the list twice`);
    stakes.set(key, BigInt(amount));
  }
  return ok({
    chain: 'nostrain:file',
    strategy: 'file',
    params: '{}',
    height: 0,
    blockHash: '00'.repeat(32),
    unit,
    rows: stakeRows(stakes),
  });
}
