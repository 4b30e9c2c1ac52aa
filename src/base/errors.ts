/** Errors this library throws (code, message, hint), parse results that never throw, and text safe for terminals. */

export interface ErrorDetails {
  /** The next command or setting to try. */
  readonly hint?: string;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** A failure of this machine or a wrong request of its user; invalid input from the network is an `Issue` instead. */
export class NostrainError extends Error {
  /** `area/what`, stable across versions, for example `relay/timeout`. */
  readonly code: string;
  readonly hint: string | undefined;
  readonly data: Readonly<Record<string, unknown>> | undefined;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    // a message may quote a relay, a stranger or a file
    super(safe(message), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.hint = details.hint === undefined ? undefined : safe(details.hint);
    this.data = details.data;
  }
}

/** A wrong setting, flag, key or file: the person can fix it. */
export class ConfigError extends NostrainError {}

/** No relay could do what was needed. */
export class RelayError extends NostrainError {}

/** The training engine failed: no such device, a graph that does not load, a loss that is not finite. */
export class TrainingError extends NostrainError {}

/** Saved state is missing, broken or belongs to something else. */
export class CheckpointError extends NostrainError {}

/** A blockchain or its RPC nodes did not return the needed data, or returned data whose proof fails. */
export class ChainError extends NostrainError {}

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

/** C0 (but newline and tab), DEL, C1, line separators, and the control characters of bidirectional text. */
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
