/** Tables as CSV (RFC 4180; also with `;` or tabs), cell by cell. */

/** One line of a table that is not empty. */
export interface CsvLine {
  readonly cells: readonly string[];
  /** In the file, from 1. */
  readonly line: number;
}

/** Lines that are not empty; what is in double quotes may hold separators, newlines and doubled quotes. */
export function readCsv(text: string): readonly CsvLine[] {
  const source = text.replace(/^\ufeff/, '');
  const separator =
    [',', ';', '\t'].find((each) => source.split('\n', 1)[0]!.includes(each)) ?? ',';
  const records: CsvLine[] = [];
  let [cells, cell, isQuoted, line, start]: [string[], string, boolean, number, number] = [
    [],
    '',
    false,
    1,
    1,
  ];
  const end = () => {
    cells.push(cell);
    if (cells.some((each) => each.trim() !== '')) records.push({ cells, line: start });
    [cells, cell, start] = [[], '', line + 1];
  };
  for (let i = 0; i < source.length; i++) {
    const character = source[i]!;
    if (character === '"' && isQuoted && source[i + 1] === '"') cell += source[++i];
    else if (character === '"') isQuoted = !isQuoted;
    else if (character === '\n' && !isQuoted) end();
    else if (character === separator && !isQuoted) {
      cells.push(cell);
      cell = '';
    } else if (character !== '\r' || isQuoted) cell += character;
    if (character === '\n') line++;
  }
  end();
  return records;
}
