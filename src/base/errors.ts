/** Every error this library throws: a stable `code`, a message naming the thing, and a `hint` with the next step. */
import { safe } from './safe-text.ts';

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
