/** Tables as CSV (RFC 4180; also with `;` or tabs): one column is the target of a regression, all others are its inputs. */
import { ConfigError } from '../../base/errors.ts';
import { readCsv } from './csv.ts';
import type { RegressionSet } from './regression.ts';

/** The rows of a table whose first line names the columns. Throws `data/dataset` with the line and column of what is no number. */
export function parseRegressionCsv(text: string, target: string | undefined): RegressionSet {
  const [header, ...lines] = readCsv(text);
  if (header === undefined || header.cells.length < 2 || lines.length === 0) {
    throw wrong('needs a line that names at least two columns, and rows below it');
  }
  const names = header.cells.map((name) => name.trim());
  const list = names.map((name) => JSON.stringify(name)).join(', ');
  if (target === undefined) {
    throw wrong(`does not say which column is to be predicted; its columns are ${list}`, TARGET);
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
    `has ${JSON.stringify(cell)} in line ${line}, column ${JSON.stringify(name)}, which is not a number`,
    'leave such columns out, or write numbers for their values',
  );
}

const wrong = (
  message: string,
  hint = 'write it like "a,b,price" and below it "1,2,3"',
): ConfigError => new ConfigError('data/dataset', `the table ${message}`, { hint });
