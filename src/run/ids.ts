/** Names of things in a run. Brands keep a worker's key from being passed where a digest belongs. */

/** A worker: its x-only public key, 64 lowercase hex characters (BIP-340). */
export type WorkerId = string & { readonly __brand?: 'WorkerId' };

/** A state digest, 64 lowercase hex characters. */
export type Digest = string & { readonly __brand?: 'Digest' };

/** The id of a signed event, 64 lowercase hex characters. */
export type EventId = string & { readonly __brand?: 'EventId' };
