/** Tokens as text while they arrive: a character whose bytes are in several tokens is held back until it is whole. */

/** A character that is cut, or bytes that are none. */
const CUT = '\ufffd';
/** More tokens than any character has are no character. */
const MOST_HELD = 8;

export interface TextStream {
  /** What can be shown of the text after this token. */
  push(token: number): string;
  /** What was held back. */
  end(): string;
}

/** For the text after a prompt that was shown already. */
export function createTextStream(decode: (tokens: ArrayLike<number>) => string): TextStream {
  // those before the new ones, as some tokens are written in another way at the start of a text
  let shown: number[] = [];
  let held: number[] = [];
  const flush = (): string => {
    if (held.length === 0) return '';
    const before = shown.length === 0 ? '' : decode(shown);
    const text = decode([...shown, ...held]).slice(before.length);
    [shown, held] = [held, []];
    return text;
  };
  return {
    push(token) {
      held.push(token);
      const isCut = decode([...shown, ...held]).endsWith(CUT) && held.length < MOST_HELD;
      return isCut ? '' : flush();
    },
    end: flush,
  };
}
