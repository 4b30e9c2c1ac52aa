/** Parses CSV tables (RFC 4180; also with `;` or tabs), and regression rows with one target column. */
import { ConfigError } from '../../base/errors.ts';
import type { RegressionSet } from './regression.ts';

/** A line of a table that is not empty. */
export interface CsvLine {
  readonly cells: readonly string[];
  /** Line number in the file, from 1. */
  readonly line: number;
}

/** Returns the lines that are not empty. Quoted cells may contain separators, newlines and doubled quotes. */
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

/** Parses a table with column names. Throws `data/dataset` with the line and column of a cell that is not a number. */
export function parseRegressionCsv(text: string, target: string | undefined): RegressionSet {
  const [header, ...lines] = readCsv(text);
  if (header === undefined || header.cells.length < 2 || lines.length === 0) {
    throw wrong('needs a header with at least two column names, and rows below it');
  }
  const names = header.cells.map((name) => name.trim());
  const list = names.map((name) => JSON.stringify(name)).join(', ');
  if (target === undefined) {
    throw wrong(`needs the name of the column to predict; its columns are ${list}`, TARGET);
  }
  const at = names.indexOf(target);
  if (at < 0) {
    throw wrong(`has no column ${JSON.stringify(target)}; its columns are ${list}`, TARGET);
  }
  const rows = lines.map(({ cells, line }) => {
    if (cells.length === names.length) return cells.map((cell, i) => read(cell, line, names[i]!));
    throw wrong(`has ${cells.length} cells in line ${line}, where line 1 has ${names.length}`);
  });
  return {
    size: rows.length,
    features: names.length - 1,
    inputs: Float64Array.from(rows.flatMap((row) => row.toSpliced(at, 1))),
    targets: Float64Array.from(rows, (row) => row[at]!),
  };
}

const TARGET = 'name it with --target COLUMN';

function read(cell: string, line: number, name: string): number {
  const value = cell.trim() === '' ? Number.NaN : Number(cell);
  if (Number.isFinite(value)) return value;
  throw wrong(
    `has ${JSON.stringify(cell)} in line ${line}, column ${JSON.stringify(name)}, which is not ` +
      'a number',
    'remove such columns, or use numbers',
  );
}

const wrong = (
  message: string,
  hint = 'write it like "a,b,price" and below it "1,2,3"',
): ConfigError => new ConfigError('data/dataset', `the table ${message}`, { hint });
