/** One thing `nostrain doctor` looked at, and how all of them are told. */

export interface Check {
  /** What was looked at: `node`, `device cpu`, `relay ws://…`. */
  readonly name: string;
  /** `absent`: not here, and not needed. `note`: works, with something to know. */
  readonly level: 'ok' | 'note' | 'absent' | 'broken';
  readonly words: string;
  /** What to do about it. */
  readonly hint?: string;
}

const MARKS: Readonly<Record<Check['level'], string>> = {
  ok: 'ok',
  note: 'note',
  absent: '-',
  broken: 'BROKEN',
};

/** One line per check, in columns, and a second one where there is something to do. */
export function formatChecks(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const margin = ' '.repeat(8);
  return checks
    .map(({ level, name, words, hint }) => {
      const line = `${MARKS[level].padEnd(8)}${name.padEnd(width)}  ${words}\n`;
      return hint === undefined ? line : `${line}${margin}${' '.repeat(width)}  try: ${hint}\n`;
    })
    .join('');
}
