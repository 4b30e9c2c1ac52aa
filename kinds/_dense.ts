/**
 * Dense text: 21 bytes in 26 letters, where base64 needs 28. A letter is printable ASCII that no usual JSON writer
 * escapes: not space, `"`, `&`, `<`, `>` or `\`.
 */
import type { Text } from './_tags.ts';

/** The 89 letters, by value. */
export const DENSE_LETTERS = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i))
  .filter((letter) => !'"&<>\\'.includes(letter))
  .join('');
/** Bytes and letters of a block. */
export const [DENSE_BYTES, DENSE_BLOCK] = [21, 26];

/** The value of each letter by its ASCII code; -1 for other characters. */
export const DENSE_VALUES = Int8Array.from({ length: 128 }, (_, code) =>
  DENSE_LETTERS.indexOf(String.fromCharCode(code)),
);

/** Whole blocks of dense letters. */
export const denseText: Text<string> = {
  says: 'dense text',
  read: (value) => {
    if (value.length === 0 || value.length % DENSE_BLOCK !== 0) return undefined;
    for (let i = 0; i < value.length; i++) {
      if ((DENSE_VALUES[value.charCodeAt(i)] ?? -1) < 0) return undefined;
    }
    return value;
  },
  write: (value) => value,
};

/** Returns the number of letters that this many bytes need: the last block is padded with zero bytes. */
export const denseLength = (bytes: number): number => DENSE_BLOCK * Math.ceil(bytes / DENSE_BYTES);
