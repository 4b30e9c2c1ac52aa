/** The policies of an ordinary relay, cheapest first. */
import { allowedKinds } from './allowed-kinds.ts';
import { createdAtWindow } from './created-at-window.ts';
import { eventSize } from './event-size.ts';
import { notExpired } from './not-expired.ts';
import type { Policy } from './policy.ts';
import { tagLimits } from './tag-limits.ts';
import { verifiedSignature } from './verified-signature.ts';

export const standardPolicies: readonly Policy[] = [
  eventSize,
  tagLimits,
  createdAtWindow,
  notExpired,
  allowedKinds,
  verifiedSignature,
];
