/** A block of lines at the bottom of a terminal that is drawn again in place. */

export interface Screen {
  /** Replaces the lines drawn before; they must fit the terminal. */
  draw(lines: readonly string[]): void;
  /** Draws the last lines, however many, and leaves them standing. */
  close(lines: readonly string[]): void;
}

/** The little of a terminal stream it needs. */
export interface Output {
  write(text: string): unknown;
}

const CSI = '\u001b[';
const HIDE_CURSOR = `${CSI}?25l`;
const SHOW_CURSOR = `${CSI}?25h`;
const CLEAR_LINE_END = `${CSI}K`;
const CLEAR_BELOW = `${CSI}J`;
/** Terminals that know it show the whole update at once, without flicker; others ignore it. */
const BEGIN_UPDATE = `${CSI}?2026h`;
const END_UPDATE = `${CSI}?2026l`;

export function createScreen(output: Output): Screen {
  let drawn = 0;
  const replace = (lines: readonly string[]) => {
    const up = drawn > 0 ? `${CSI}${drawn}A` : '';
    const body = lines.map((line) => `${line}${CLEAR_LINE_END}\n`).join('');
    output.write(`${BEGIN_UPDATE}${HIDE_CURSOR}\r${up}${body}${CLEAR_BELOW}${END_UPDATE}`);
    drawn = lines.length;
  };
  return {
    draw: replace,
    close(lines) {
      replace(lines);
      output.write(SHOW_CURSOR);
      drawn = 0;
    },
  };
}
