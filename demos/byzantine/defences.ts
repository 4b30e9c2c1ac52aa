/** What the attack lab sets against its adversaries: every aggregation rule that works with so many workers, alone and with screening in front. */
import {
  type Aggregation,
  leastRows,
  ruleForms,
  ruleNames,
  usualAggregation,
} from '../../src/run/aggregation.ts';

export interface Defence {
  /** As `--rule` takes it. */
  readonly name: string;
  readonly aggregation: Aggregation;
  /** A committee leaves out what harms by its own measure. */
  readonly screens: boolean;
}

/** Rules that are tried with screening in front of them, too. Krum needs more rows than screening leaves of eight. */
const SCREENED = ['mean', 'clipped-mean', 'trimmed-mean', 'nnm+trimmed-mean'];
const MIXED = ['trimmed-mean', 'geometric-median'] as const;

/** All of them; `hostile` is what the rules are told to withstand. */
export function defencesFor(workers: number, hostile: number): readonly Defence[] {
  const plain = ruleNames.map((rule): Aggregation => {
    const withstood = ruleForms[rule] === 'mean' ? 0 : hostile;
    return { ...usualAggregation, rule, hostile: withstood };
  });
  const mixed = MIXED.flatMap((rule): readonly Aggregation[] => [
    { ...usualAggregation, rule, hostile, before: 'nnm' },
    { ...usualAggregation, rule, hostile, before: 'bucketing' },
  ]);
  const works = [...plain, ...mixed].filter((aggregation) => leastRows(aggregation) <= workers);
  const alone = works.map((each) => ({ name: nameOf(each), aggregation: each, screens: false }));
  const screened = alone
    .filter(({ name }) => SCREENED.some((rule) => rule === name))
    .map(({ name, aggregation }) => ({ name: `${name}+screening`, aggregation, screens: true }));
  return [...alone, ...screened];
}

const nameOf = ({ rule, before }: Aggregation): string =>
  before === 'nothing' ? rule : `${before}+${rule}`;
