/** What a relay says of itself (NIP-11), and the port that asks; every field is optional and to be doubted. */
import type { Result } from '../../base/errors.ts';

interface RelayLimitation {
  /** Longest WebSocket message; says little about how large an event may be. */
  readonly maxMessageLength?: number;
  readonly maxContentLength?: number;
  readonly maxSubscriptions?: number;
  readonly maxFilters?: number;
  readonly maxLimit?: number;
  readonly maxEventTags?: number;
  readonly minPowDifficulty?: number;
  readonly createdAtLowerLimit?: number;
  readonly createdAtUpperLimit?: number;
  readonly authRequired?: boolean;
  readonly paymentRequired?: boolean;
  readonly restrictedWrites?: boolean;
}

/** The fields we use of a NIP-11 document. */
export interface RelayInfo {
  readonly name?: string;
  readonly software?: string;
  readonly version?: string;
  readonly supportedNips: readonly number[];
  readonly limitation: RelayLimitation;
}

/** Asks a relay for its description; `src/node/net/relays.ts` does it on Node. Rejects only when aborted. */
export type FetchInfo = (url: string, signal: AbortSignal) => Promise<Result<RelayInfo>>;
