/** A policy looks at one well-formed event and says why it is refused, or nothing. One function per file. */
import type { Arrival } from '../event.ts';
import type { Limits } from '../limits.ts';

/** What a refusal is about, so that a profile can word it its own way. */
export type RefusalCode =
  | 'duplicate'
  | 'expired'
  | 'protected'
  | 'too-early'
  | 'too-early-ephemeral'
  | 'too-fast'
  | 'too-late'
  | 'too-long'
  | 'wrong-id'
  | 'wrong-signature';

interface Refusal {
  /** Standard prefix of NIP-01 or NIP-42. */
  readonly prefix:
    | 'invalid'
    | 'blocked'
    | 'error'
    | 'restricted'
    | 'rate-limited'
    | 'pow'
    | 'auth-required';
  readonly message: string;
  readonly code?: RefusalCode;
}

/** Who must authenticate (NIP-42): nobody, whoever publishes, or whoever reads as well. */
export type AuthMode = 'none' | 'write' | 'all';

/** What a policy may know of the connection the event came by. */
export interface PolicySession {
  readonly number: number;
  /** Where it comes from, an IPv4 address or an IPv6 /64; several connections may share it. */
  readonly address: string;
  /** Whether it comes from a loopback or private network. */
  readonly isNear: boolean;
  readonly limits: Limits;
  readonly auth: AuthMode;
  /** Keys that proved themselves on this connection. */
  readonly keys: ReadonlySet<string>;
  nowSeconds(): number;
  nowMs(): number;
  /** Whether a URL names this relay. */
  isMine(url: string): boolean;
}

export type Policy = (event: Arrival, session: PolicySession) => Refusal | undefined;
