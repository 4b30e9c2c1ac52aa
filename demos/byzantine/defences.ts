/**
 * The defences of the attack lab (`nostrain demo byzantine`): all aggregation rules that fit the number of workers,
 * some also after screening, which removes contributions that measurably harm the loss.
 */
import { deriveKey, type Trainer } from 'nostrain';
import { Judgment } from '../../src/certified/features/screening.ts';
import type { Row } from '../../src/consensus/aggregate/mean.ts';
import {
  type Aggregation,
  leastRows,
  ruleForms,
  ruleNames,
  usualAggregation,
} from '../../src/run/aggregation.ts';
import type { Vector } from '../../src/tensor/params.ts';
import { gainOf, type MeasuredGain } from '../../src/worker/gains.ts';

export interface Defence {
  readonly name: string;
  readonly aggregation: Aggregation;
  /** A committee leaves out contributions that raise its own loss. */
  readonly screens: boolean;
  /** The hostile workers are strangers in an open run, in which founders decide. */
  readonly strangers?: boolean;
}

/** What runs without an attack use. */
export const plainMean: Defence = {
  name: 'mean',
  aggregation: { ...usualAggregation, rule: 'mean' },
  screens: false,
};

/** The only defence that withstands any number of hostile workers. */
const founders: Defence = {
  name: 'founders',
  aggregation: usualAggregation,
  screens: false,
  strangers: true,
};

/** Rules that are also tried after screening. Krum needs more contributions than screening leaves of eight. */
const SCREENED = ['mean', 'clipped-mean', 'trimmed-mean', 'nnm+trimmed-mean'];
const MIXED = ['trimmed-mean', 'geometric-median'] as const;

/**
 * Returns all defences; `hostile` is the number of hostile workers that the rules are set to withstand. No rule
 * withstands half of the workers, so that only the rule of founders is left then.
 */
export function defencesFor(workers: number, hostile: number): readonly Defence[] {
  if (2 * hostile >= workers) return [founders];
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
  return [...alone, ...screened, founders];
}

const nameOf = ({ rule, before }: Aggregation): string =>
  before === 'nothing' ? rule : `${before}+${rule}`;

/** Removes contributions from a round before aggregation, as a committee does. */
export type DefenceScreen = (
  params: Vector,
  rows: readonly Row[],
  round: number,
) => Promise<readonly Row[]>;

/** Number of rows of its own data on which a member measures losses, as in certified rounds. */
const ROWS = 32;

export interface Members {
  readonly trainers: readonly Pick<Trainer, 'measure'>[];
  readonly hostile: number;
  readonly seed: number;
}

/**
 * Returns a screen by loss: workers take turns proposing, and list contributions that pass their own measurement. The
 * list of a hostile worker must be acceptable to an honest member, whose bound is wider.
 */
export const screenOf =
  ({ trainers, hostile, seed }: Members): DefenceScreen =>
  async (params, rows, round) => {
    const proposer = round % trainers.length;
    const honest = trainers.length - hostile;
    const member = proposer < honest ? proposer : round % honest;
    const draw = { key: deriveKey('nostrain/lab/screening', seed, member, round), rows: ROWS };
    const losses = (values: Vector) => trainers[member]!.measure!(values, 'shard', draw);
    const before = await losses(params);
    const findings = new Map<string, MeasuredGain>();
    for (const { id, delta } of rows) {
      findings.set(id, await gainOf(params, { delta }, before, losses));
    }
    const judgment = new Judgment(findings);
    return rows.filter(({ id }) =>
      proposer < honest ? judgment.mayPropose(id) : judgment.mayAccept(id, 0),
    );
  };
