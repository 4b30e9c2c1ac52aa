/** The policies of an ordinary relay, cheapest first. */
import type { Limits } from '../limits.ts';
import { createAddressRate } from './address-rate.ts';
import { allowedKinds } from './allowed-kinds.ts';
import { authenticated } from './authenticated.ts';
import { contentLength } from './content-length.ts';
import { createdAtWindow } from './created-at-window.ts';
import { createEventRates } from './event-rates.ts';
import { eventSize } from './event-size.ts';
import { notExpired } from './not-expired.ts';
import type { Policy } from './policy.ts';
import { proofOfWork } from './proof-of-work.ts';
import { reservedKinds } from './reserved-kinds.ts';
import { tagLimits } from './tag-limits.ts';
import { verifiedSignature } from './verified-signature.ts';

/** One relay's own list: rates are counted in it. */
export const createStandardPolicies = ({
  eventRates,
  addressRate,
  publicAddress,
}: Limits): readonly Policy[] => [
  eventSize,
  contentLength,
  tagLimits,
  createdAtWindow,
  notExpired,
  reservedKinds,
  allowedKinds,
  authenticated,
  proofOfWork,
  verifiedSignature,
  createEventRates(eventRates),
  ...(addressRate === undefined ? [] : [createAddressRate(addressRate)]),
  ...(publicAddress === undefined ? [] : [createAddressRate(publicAddress.events, true)]),
];
