/**
 * The options for closing and aggregating a round: sync strategies, and names, forms and minimum rows of the
 * aggregation rules. The rules themselves are in `consensus/aggregate`.
 */

/**
 * What each aggregation rule works on: sums only, each value separately, or whole contributions and the distances
 * between them.
 */
export const ruleForms = {
  'clipped-mean': 'mean',
  mean: 'mean',
  'trimmed-mean': 'values',
  'coordinate-median': 'values',
  krum: 'rows',
  'multi-krum': 'rows',
  'geometric-median': 'rows',
  'centered-clip': 'rows',
} as const satisfies Readonly<Record<string, 'mean' | 'values' | 'rows'>>;
export type RuleName = keyof typeof ruleForms;
/** Names of the rules, in the order of their forms. */
export const ruleNames = Object.keys(ruleForms) as readonly RuleName[];

/** Preprocessing of the contributions before the rule. */
export const beforeNames = ['nothing', 'nnm', 'bucketing'] as const;
export type BeforeName = (typeof beforeNames)[number];

/** How a round combines its contributions into one step. */
export interface Aggregation {
  readonly rule: RuleName;
  /** Number of hostile contributions that the rule withstands (f); means withstand none, so it is 0. */
  readonly hostile: number;
  readonly before: BeforeName;
  /**
   * Outer rate, in thousandths, for a round whose contributions point in opposite directions; 1000 leaves the rate
   * unchanged.
   */
  readonly leastRatePermille: number;
}

/** Default aggregation. */
export const usualAggregation: Aggregation = {
  rule: 'clipped-mean',
  hostile: 0,
  before: 'nothing',
  leastRatePermille: 1000,
};

/** Default rule of a verified run: the lowest loss over all attacks of the lab (decision 0021). */
export const verifiedAggregation = { rule: 'trimmed-mean', before: 'nnm' } as const;

/** Contributions that bucketing merges into one. */
export const BUCKET_ROWS = 2;

/** Returns the minimum number of contributions with which a rule works if `hostile` of them are hostile. */
export function leastRows({ rule, hostile, before }: Aggregation): number {
  if (ruleForms[rule] === 'mean') return 1;
  const isKrum = rule === 'krum' || rule === 'multi-krum';
  const least = 2 * hostile + (isKrum ? 3 : 1);
  return before === 'bucketing' ? BUCKET_ROWS * (least - 1) + 1 : least;
}

export type Sync =
  /** Everything valid until the deadline. */
  | { readonly strategy: 'timeout' }
  /** Closes when exactly `workers` valid gradients have arrived; fewer at the deadline is an error. */
  | { readonly strategy: 'strict'; readonly workers: number }
  /** Closes when more than half of the live workers have sent, or at the deadline. */
  | { readonly strategy: 'quorum' }
  /** Closes immediately with what relays already hold; later gradients are folded into a later round. */
  | { readonly strategy: 'async' };

/** Why a round stopped collecting; `certified` if a committee decided. */
export type CompletionReason = 'strict' | 'quorum' | 'timeout' | 'async' | 'certified';

/** Parses `timeout`, `quorum`, `async` or `strict:N`; undefined for anything else. */
export function parseSync(text: string): Sync | undefined {
  if (text === 'timeout' || text === 'quorum' || text === 'async') return { strategy: text };
  const workers = /^strict:([1-9][0-9]{0,5})$/.exec(text)?.[1];
  return workers === undefined ? undefined : { strategy: 'strict', workers: Number(workers) };
}

/** Formats a strategy as users type it. */
export const formatSync = (sync: Sync): string =>
  sync.strategy === 'strict' ? `strict:${sync.workers}` : sync.strategy;
