/** Lines that stay, and below them one that is repainted: on a terminal in place, elsewhere as lines when it changes. */
import { safeLine } from '../base/errors.ts';
import { clip } from './render/text.ts';

export interface Repainter {
  /** Writes a line that stays. */
  write(line: string): void;
  /** Replaces the last line. */
  repaint(line: string): void;
}

type Stream = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>;

/** Clears the line of the cursor. */
const CLEAR = '\r\x1b[K';

export function createRepainter(stream: Stream): Repainter {
  let shown = '';
  return {
    write(line) {
      const isPainted = stream.isTTY && shown !== '';
      stream.write(`${isPainted ? CLEAR : ''}${safeLine(line)}\n`);
      shown = '';
    },
    repaint(line) {
      if (line === shown) return;
      shown = line;
      // one column stays free, because terminals wrap at the last one
      const text = safeLine(line);
      if (stream.isTTY) stream.write(`${CLEAR}${clip(text, (stream.columns || 80) - 1)}`);
      else stream.write(`${text}\n`);
    },
  };
}
