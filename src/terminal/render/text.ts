/** Lays out text for terminals: colors, clipping and wrapping. */
import { safeLine } from '../../base/errors.ts';

export interface Paint {
  bold(text: string): string;
  dim(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
  cyan(text: string): string;
}

const ESCAPE = '\u001b';

/** Returns SGR styles, or functions that return the plain text if colors are off. */
export function createPaint(color: boolean): Paint {
  const style = (code: number) => (text: string) =>
    color && text !== '' ? `${ESCAPE}[${code}m${text}${ESCAPE}[0m` : text;
  return {
    bold: style(1),
    dim: style(2),
    green: style(32),
    yellow: style(33),
    red: style(31),
    cyan: style(36),
  };
}

/** Characters that take two cells: East Asian wide and fullwidth characters, and emoji. */
const WIDE = new RegExp(
  String.raw`[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff` +
    String.raw`\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]` +
    String.raw`|\p{Emoji_Presentation}`,
  'u',
);
/** Characters that take no cell: combining marks and format characters. */
const NO_CELL = /[\p{Mn}\p{Me}\p{Cf}]/u;
const ASCII = /^[\u0020-\u007e]*$/;

const cellsOf = (character: string): number =>
  WIDE.test(character) ? 2 : NO_CELL.test(character) ? 0 : 1;

/** Returns the number of terminal cells of plain text. */
export const widthOf = (text: string): number =>
  ASCII.test(text)
    ? text.length
    : [...text].reduce((width, character) => width + cellsOf(character), 0);

/** Pads plain text with spaces at the end to `width` cells. */
export const padEnd = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - widthOf(text)));

/** Pads plain text with spaces in front to `width` cells. */
export const padStart = (text: string, width: number): string =>
  ' '.repeat(Math.max(0, width - widthOf(text))) + text;

/** Clips plain text to `width` cells, ending in `…` if something was cut. */
export function clip(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  return width <= 0 ? '' : `${text.slice(0, lengthWithin(text, width - 1))}…`;
}

/** Returns the length, in UTF-16 units, of the longest prefix that fits into `width` cells. */
function lengthWithin(text: string, width: number): number {
  let length = 0;
  let cells = 0;
  for (const character of text) {
    cells += cellsOf(character);
    if (cells > width) break;
    length += character.length;
  }
  return length;
}

/** Wraps text into lines of at most `width` cells, at spaces if possible. */
export function wrap(text: string, width: number): readonly string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    let rest = paragraph;
    while (widthOf(rest) > width) {
      const most = Math.max(lengthWithin(rest, width), [...rest][0]!.length);
      const space = rest.lastIndexOf(' ', most);
      const cut = space > 0 ? space : most;
      lines.push(rest.slice(0, cut));
      rest = rest.slice(space > 0 ? cut + 1 : cut);
    }
    return rest === '' && lines.length > 0 ? lines : [...lines, rest];
  });
}

/** Returns wrapped notes, each with a dash in front. */
export const bullets = (notes: readonly string[], width: number): readonly string[] =>
  notes.flatMap((note) =>
    wrap(safeLine(note), width - 4).map((line, i) => `${i === 0 ? '  - ' : '    '}${line}`),
  );

const GAP = 2;
const NARROWEST_FIRST = 20;

/** Aligns rows in columns; the first column is clipped if the line is too narrow. */
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
