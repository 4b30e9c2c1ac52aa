/** How a round decides that it has waited long enough: the four strategies, as a person writes them. */

export type Sync =
  /** Everything valid until the deadline. */
  | { readonly strategy: 'timeout' }
  /** Exactly when `workers` valid gradients are in; fewer at the deadline is an error. */
  | { readonly strategy: 'strict'; readonly workers: number }
  /** As soon as more than half of the live workers are in; what is there at the deadline. */
  | { readonly strategy: 'quorum' }
  /** At once, with what the relays already hold; later gradients are folded into a later round. */
  | { readonly strategy: 'async' };

/** Why a round stopped collecting; `certified` where a committee decided. */
export type CompletionReason = 'strict' | 'quorum' | 'timeout' | 'async' | 'certified';

/** `timeout`, `quorum`, `async` or `strict:N`; undefined for anything else. */
export function parseSync(text: string): Sync | undefined {
  if (text === 'timeout' || text === 'quorum' || text === 'async') return { strategy: text };
  const workers = /^strict:([1-9][0-9]{0,5})$/.exec(text)?.[1];
  return workers === undefined ? undefined : { strategy: 'strict', workers: Number(workers) };
}

/** A strategy as a person writes it. */
export const formatSync = (sync: Sync): string =>
  sync.strategy === 'strict' ? `strict:${sync.workers}` : sync.strategy;
