/**
 * How people count rounds: from 1. Code, events, specs and JSON documents keep the index, from 0. Whatever a person reads or types
 * passes through here.
 */

/** `round 1` of index 0. */
export const roundName = (index: number): string => `round ${roundNumber(index)}`;

/** What a person reads for an index: 1 of 0. */
export const roundNumber = (index: number): number => index + 1;

/** The index of a round that a person typed: 0 of 1. */
export const roundIndex = (number: number): number => number - 1;
