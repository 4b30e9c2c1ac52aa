/** Branded names of things in a run, so that a key is no digest, and rounds as people count them, from 1. */

/** A worker: its x-only public key, 64 lowercase hex characters (BIP-340). */
export type WorkerId = string & { readonly __brand?: 'WorkerId' };

/** A state digest, 64 lowercase hex characters. */
export type Digest = string & { readonly __brand?: 'Digest' };

/** The id of a signed event, 64 lowercase hex characters. */
export type EventId = string & { readonly __brand?: 'EventId' };

/** `round 1` of index 0. */
export const roundName = (index: number): string => `round ${roundNumber(index)}`;

/** What a person reads for an index: 1 of 0. */
export const roundNumber = (index: number): number => index + 1;

/** The index of a round that a person typed: 0 of 1. */
export const roundIndex = (number: number): number => number - 1;
