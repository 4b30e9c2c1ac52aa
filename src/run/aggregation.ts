/** Rules by which the rows of a round become one step: their names, and what each can and cannot work with. `consensus/aggregate` has the rules themselves. */

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
  /** Outer learning rate, in thousandths of it, of a round whose rows point in opposite directions; 1000 leaves the rate as it is. */
  readonly leastRatePermille: number;
}

/** What a run does that names nothing else. */
export const usualAggregation: Aggregation = {
  rule: 'clipped-mean',
  hostile: 0,
  before: 'nothing',
  leastRatePermille: 1000,
};

/** What a verified run does where its author leaves the rule out: it costs least over all attacks of the lab (decision 0021). */
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
