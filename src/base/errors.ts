/** The errors of this library (code, message, hint), results of parsers that never throw, and terminal-safe text. */

export interface ErrorDetails {
  /** The command or setting to try next. */
  readonly hint?: string;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** A failure of this machine or a mistake of its user. Invalid input from the network is an `Issue` instead. */
export class NostrainError extends Error {
  /** `area/what`, stable across versions, for example `relay/timeout`. */
  readonly code: string;
  readonly hint: string | undefined;
  readonly data: Readonly<Record<string, unknown>> | undefined;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    // a message may quote a relay, an unknown peer or a file
    super(safe(message), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.hint = details.hint === undefined ? undefined : safe(details.hint);
    this.data = details.data;
  }
}

/** A wrong setting, flag, key or file; the user can correct it. */
export class ConfigError extends NostrainError {}

/** Too few relays, or none, did what was needed. */
export class RelayError extends NostrainError {}

/** The training engine failed: the device is missing, a graph does not load, or the loss is not finite. */
export class TrainingError extends NostrainError {}

/** Saved state is missing, damaged or belongs to another run. */
export class CheckpointError extends NostrainError {}

/** A blockchain or its RPC nodes did not return the needed data, or returned data whose proof fails. */
export class ChainError extends NostrainError {}

/** Returns the words of anything thrown. */
export const wordsOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Returns the error behind another, as `fetch` reports failures; otherwise the error itself. */
export const causeOf = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? error.cause : error;

/** Why external input was refused: a stable code, the path to the offending part, and a sentence. */
export interface Issue {
  readonly code: string;
  /** Path of the offending part, for example `tags.round` or `content`. */
  readonly at: string;
  readonly message: string;
}

/** Result of a parser: the value, or the issue that makes it invalid. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly issue: Issue };

export const ok = <T>(value: T): Result<T> => ({ ok: true, value });

/** Returns a failed result with one issue: its code, where it is, and what is wrong. */
export const refuse = (code: string, at: string, message: string): { ok: false; issue: Issue } => ({
  ok: false,
  issue: { code, at, message },
});

/**
 * C0 (except newline and tab), DEL, C1, line separators, control characters of bidirectional text, and the replacement
 * character, which stands for bytes that are not UTF-8.
 */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern removes them
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]/g;

/** Replaces each unsafe character with `·`; keeps newlines and tabs. */
export const safe = (text: string): string => text.replace(UNSAFE, '·');

/** Like `safe`, on one line: newlines and tabs become spaces. */
export const safeLine = (text: string): string => safe(text).replace(/[\n\t]/g, ' ');

/** Formats a value as JSON with unsafe characters as escapes: the same value, safe to print. */
export const safeJson = (value: unknown, indent?: number): string =>
  escapeJson(JSON.stringify(value, null, indent));

/** Escapes the unsafe characters of an untrusted JSON text; they occur in strings only. */
export const escapeJson = (json: string): string =>
  json.replace(UNSAFE, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
