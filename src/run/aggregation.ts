/** When a round closes (sync strategies), and the rule that makes its rows one step; see `consensus/aggregate`. */

/** Rules by which rows become a step. */
export const ruleNames = [
  'clipped-mean',
  'mean',
  'trimmed-mean',
  'coordinate-median',
  'krum',
  'multi-krum',
  'geometric-median',
  'centered-clip',
] as const;
export type RuleName = (typeof ruleNames)[number];

/** What may be done to the rows in front of a rule. */
export const beforeNames = ['nothing', 'nnm', 'bucketing'] as const;
export type BeforeName = (typeof beforeNames)[number];

/** How a round makes a step of its rows. */
export interface Aggregation {
  readonly rule: RuleName;
  /** Hostile rows that the rule withstands (f); means withstand none and say 0. */
  readonly hostile: number;
  readonly before: BeforeName;
  /** Outer rate, in thousandths, of a round whose rows point in opposite directions; 1000 leaves the rate as it is. */
  readonly leastRatePermille: number;
}

/** What a run does that names nothing else. */
export const usualAggregation: Aggregation = {
  rule: 'clipped-mean',
  hostile: 0,
  before: 'nothing',
  leastRatePermille: 1000,
};

/** The rule of a verified run whose author names none: it costs least over all attacks of the lab (decision 0021). */
export const verifiedAggregation = { rule: 'trimmed-mean', before: 'nnm' } as const;

/** What a rule looks at: sums alone, each value by itself, or whole rows and the distances between them. */
export const ruleForms = {
  'clipped-mean': 'mean',
  mean: 'mean',
  'trimmed-mean': 'values',
  'coordinate-median': 'values',
  krum: 'rows',
  'multi-krum': 'rows',
  'geometric-median': 'rows',
  'centered-clip': 'rows',
} as const satisfies Readonly<Record<RuleName, 'mean' | 'values' | 'rows'>>;

/** Rows that bucketing puts into one. */
export const BUCKET_ROWS = 2;

/** The fewest rows that a rule works with where so many of them are hostile. */
export function leastRows({ rule, hostile, before }: Aggregation): number {
  if (ruleForms[rule] === 'mean') return 1;
  const isKrum = rule === 'krum' || rule === 'multi-krum';
  const least = 2 * hostile + (isKrum ? 3 : 1);
  return before === 'bucketing' ? BUCKET_ROWS * (least - 1) + 1 : least;
}

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
