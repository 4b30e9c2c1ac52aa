/** A policy looks at one well-formed event and says why it is refused, or nothing. One function per file. */
import type { Arrival } from '../event.ts';
import type { Limits } from '../limits.ts';

interface Refusal {
  /** Standard prefix of NIP-01. */
  readonly prefix: 'invalid' | 'blocked' | 'error' | 'restricted' | 'rate-limited' | 'pow';
  readonly message: string;
}

/** What a policy may know of the connection the event came by. */
export interface PolicySession {
  readonly number: number;
  readonly limits: Limits;
  nowSeconds(): number;
}

export type Policy = (event: Arrival, session: PolicySession) => Refusal | undefined;
