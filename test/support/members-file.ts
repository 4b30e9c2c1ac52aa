/** A members file for `nostrain witness`, in any order. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { keyOf } from './members.ts';
import { temporaryFolder } from './processes.ts';

/** Writes JSON lines; a member's stake is its number and one. */
export function writeMembers(order: readonly number[]): string {
  const file = join(temporaryFolder(), 'members.jsonl');
  const rows = order.map((i) => JSON.stringify({ key: keyOf(i), stake: String(i + 1) }));
  writeFileSync(file, `${rows.join('\n')}\n`);
  return file;
}
