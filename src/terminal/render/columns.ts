/** Rows of plain text in columns. */
import { clip, padEnd, widthOf } from './text.ts';

const GAP = 2;
const NARROWEST_FIRST = 20;

/** Rows in columns, the first of which gives way where there is too little room. */
export function alignColumns(
  rows: readonly (readonly string[])[],
  width: number,
): readonly string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => widthOf(row[column]!))));
  const others = widths.slice(1).reduce((sum, each) => sum + each + GAP, 0);
  widths[0] = Math.min(widths[0]!, Math.max(NARROWEST_FIRST, width - others));
  return rows.map((row) =>
    row
      .map((cell, column) => padEnd(clip(cell, widths[column]!), widths[column]!))
      .join(' '.repeat(GAP))
      .trimEnd(),
  );
}
