/** Bad input from others as a value: parsers of network bytes return these and never throw. */

/** Why something from outside was refused: a stable code, where it is wrong, and a sentence for people. */
export interface Issue {
  readonly code: string;
  /** Path of the offending part, for example `tags.round` or `content`. */
  readonly at: string;
  readonly message: string;
}

/** What parsing gives: a value, or an issue that says what is wrong. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly issue: Issue };

export const ok = <T>(value: T): Result<T> => ({ ok: true, value });

export const refuse = (code: string, at: string, message: string): { ok: false; issue: Issue } => ({
  ok: false,
  issue: { code, at, message },
});
