/** Branded types for ids, so that a key cannot be used as a digest, and round numbers for users, which start at 1. */

/** A worker: its x-only public key, 64 lowercase hex characters (BIP-340). */
export type WorkerId = string & { readonly __brand?: 'WorkerId' };

/** A state digest, 64 lowercase hex characters. */
export type Digest = string & { readonly __brand?: 'Digest' };

/** The id of a signed event, 64 lowercase hex characters. */
export type EventId = string & { readonly __brand?: 'EventId' };

/** Returns `round 1` for index 0. */
export const roundName = (index: number): string => `round ${roundNumber(index)}`;

/** Returns the round number that users see: 1 for index 0. */
export const roundNumber = (index: number): number => index + 1;

/** Returns the index of a round number that a user typed: 0 for 1. */
export const roundIndex = (number: number): number => number - 1;
