/**
 * What of a payload is cut into chunks: the payload itself, or, striped over relays, shards of which any `need` restore it.
 * Nothing here knows a relay.
 */
import type { Digest } from '../../run/ids.ts';
import { encodeStripe, restoreStripe, type Stripe, shardBytes } from './erasure.ts';
import type { PayloadRoot } from './merkle.ts';

/** A payload and, when it is striped, its shards. */
export interface Striped extends PayloadRoot {
  readonly need?: number | undefined;
  /** Roots of all shards, data first. */
  readonly shards?: readonly Digest[] | undefined;
}

export interface Parts {
  /** How many of the roots are enough. */
  readonly need: number;
  readonly roots: readonly PayloadRoot[];
}

/** The parts to send: the payload alone without a stripe. */
export const cutParts = (payload: Uint8Array, stripe: Stripe | undefined): readonly Uint8Array[] =>
  stripe ? encodeStripe(payload, stripe) : [payload];

/** The parts to ask for. */
export function partsOf(payload: Striped): Parts {
  const stripe = stripeOf(payload);
  const { root, bytes, shards } = payload;
  if (!stripe || !shards) return { need: 1, roots: [{ root, bytes }] };
  const length = shardBytes(stripe, bytes);
  return { need: stripe.data, roots: shards.map((shard) => ({ root: shard, bytes: length })) };
}

/** The payload from parts, `undefined` where one is not here; undefined while there are too few. */
export function joinParts(
  parts: readonly (Uint8Array | undefined)[],
  payload: Striped,
): Uint8Array | undefined {
  const stripe = stripeOf(payload);
  if (!stripe) return parts[0];
  const restored = restoreStripe(parts, stripe, payload.bytes);
  return restored.ok ? restored.bytes : undefined;
}

/** How a payload is striped; undefined when it is whole. */
export function stripeOf({ need, shards }: Striped): Stripe | undefined {
  if (need === undefined || shards === undefined) return undefined;
  return { data: need, parity: shards.length - need };
}
