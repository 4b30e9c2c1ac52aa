/**
 * Aggregates the contributions of a round: bounds their norms, applies the aggregation rule to the contributions of
 * members, and adds those of guests.
 */
import { addGuests } from './guests.ts';
import type { Row } from './mean.ts';
import { boundRows, type NormContext } from './norm-bound.ts';
import { type Aggregate, type AggregateOptions, aggregate } from './rules.ts';

/** A contribution before its norm is bounded. */
export interface UnboundedRow extends Omit<Row, 'scale'> {
  /** Weight of its vote on the bound, in a run with stakes; default 1. */
  readonly stake?: number;
  /** Whether its worker is a guest (guests.ts), whose contribution has no vote on the bound. */
  readonly isGuest?: boolean;
}

export interface BoundedOptions extends AggregateOptions, Omit<NormContext, 'weights'> {}

/** Returns the aggregate, and the typical norm of the contributions for the history of later rounds. */
export function aggregateBounded(
  rows: readonly UnboundedRow[],
  options: BoundedOptions,
): { readonly aggregate: Aggregate; readonly typical: number } {
  const { scales, typical } = boundRows(
    rows.map(({ delta }) => delta),
    { ...options, weights: rows.map(({ stake = 1, isGuest }) => (isGuest ? 0 : stake)) },
  );
  const bounded = rows.map((row, i) => ({ ...row, scale: scales[i]! }));
  const guests = bounded.filter(({ isGuest }) => isGuest);
  const others = bounded.filter(({ isGuest }) => !isGuest);
  const senders = others.filter(({ delta }) => delta.chunks.length > 0);
  // in a round to which only guests sent something, their contributions count like all others
  if (guests.length === 0 || senders.length === 0) {
    return { aggregate: aggregate(bounded, options), typical };
  }
  const weight = senders.reduce((sum, row) => sum + row.weight, 0);
  const step = aggregate(others, options);
  return { aggregate: addGuests(step, guests, { ...options, weight }), typical };
}
