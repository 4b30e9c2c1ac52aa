/**
 * Text from outside made harmless for terminals and logs: nothing that a relay, a stranger or a file says can move the cursor,
 * recolor, retitle, hide or reorder what is shown.
 */

/** C0 (but newline and tab), DEL, C1, line separators, and the marks, embeddings, overrides and isolates of bidirectional text. */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it removes
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Unsafe characters become `·`; newlines and tabs stay. */
export const safe = (text: string): string => text.replace(UNSAFE, '·');

/** The same in one line. */
export const safeLine = (text: string): string => safe(text).replace(/[\n\t]/g, ' ');

/** JSON text in which unsafe characters are written as escapes: the same value, harmless to look at. */
export const safeJson = (value: unknown, indent?: number): string =>
  escapeJson(JSON.stringify(value, null, indent));

/** JSON text, written by whomever, with unsafe characters as escapes; they occur in strings only. */
export const escapeJson = (json: string): string =>
  json.replace(UNSAFE, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
