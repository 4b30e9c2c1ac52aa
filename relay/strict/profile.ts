/** A profile is a relay to behave like: its limits, its words, and what its NIP-11 document shows. One file each. */
import type { Limits } from '../limits.ts';
import type { RefusalCode } from '../policies/policy.ts';

export interface Dialect {
  /** How a REQ that is not served is answered; before the reason of a NOTICE come `noticeWords`. */
  readonly refusedReq: 'CLOSED' | 'NOTICE';
  readonly noticeWords: string;
  /** Whether a filter field nobody knows refuses the REQ; else it is ignored, and an unknown `#name` matches nothing. */
  readonly unknownFields: 'refuse' | 'ignore';
  /** Whether EOSE says if there is more (NIP-67). */
  readonly hints: boolean;
  /** Whether COUNT is answered (NIP-45). */
  readonly counts: boolean;
  /** Whether NEG-OPEN is answered (NIP-77). */
  readonly syncs: boolean;
  /** The message that refuses a REQ beyond `maxSubscriptions`. */
  readonly tooManySubscriptions: (id: string, most: number) => readonly string[];
  /** The whole message of a refusal, where it differs from ours. */
  readonly words: Partial<Record<RefusalCode, string>>;
}

export interface Profile {
  readonly limits: Partial<Limits>;
  readonly dialect: Dialect;
  /** The NIP-11 document without its name. */
  document(limits: Limits): Readonly<Record<string, unknown>>;
}
