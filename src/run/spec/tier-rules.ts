/**
 * What must hold in a run whose workers train tiers of width: the model has to have tiers, and whatever asks of a worker to have the whole
 * model, or to compare rows that cover different parts of it, is refused before anything is published.
 */

import { ruleForms } from '../aggregation.ts';
import { formOf } from '../data-forms.ts';
import type { SpecRule } from './aggregation-rules.ts';
import type { RunSpec } from './run-spec.ts';
import type { Start } from './start.ts';

const hasNone = ({ tiers }: RunSpec): boolean => tiers === 0;

/** A field that has to be as it usually is, and why. */
const usual = (
  at: string,
  says: string,
  holds: (spec: RunSpec) => boolean,
  { why, nearest }: { readonly why?: string; readonly nearest: string },
): SpecRule => ({
  at,
  says: `${says} where tiers is above 0${why === undefined ? '' : `: ${why}`}`,
  nearest: `${nearest}, or leave --tiers out`,
  holds: (spec) => hasNone(spec) || holds(spec),
});

/** The same of the published model that a run starts from. */
const ofBase = (
  at: string,
  says: string,
  {
    holds,
    ...rest
  }: { readonly why: string; readonly nearest: string } & {
    holds(start: Start, tiers: number): boolean;
  },
): SpecRule =>
  usual(`start.${at}`, says, ({ start, tiers }) => start === null || holds(start, tiers), rest);

export const tierRules: readonly SpecRule[] = [
  usual(
    'training.model',
    'it is a transformer over text',
    ({ training }) => formOf(training) === 'tokens',
    {
      nearest: 'take --model gpt, or --base',
    },
  ),
  usual(
    'training.ffn',
    'it is a multiple of 2 to the power of tiers',
    ({ training, tiers, start }) => start !== null || training.ffn % 2 ** tiers === 0,
    {
      why: 'each tier halves it',
      nearest: 'take fewer --tiers',
    },
  ),
  ofBase('model.ffn', 'it is a multiple of 2 to the power of tiers', {
    holds: ({ model }, tiers) => model.ffn % 2 ** tiers === 0,
    why: 'each tier halves it',
    nearest: 'take fewer --tiers',
  }),
  ofBase('model.architecture', 'it is llama', {
    holds: ({ model }) => model.architecture === 'llama',
    why: 'tiers are cut out of gate, up and down matrices',
    nearest: 'take another --base',
  }),
  {
    at: 'start.rings',
    says: 'there is one more of them than tiers, of start.root too where that is a list, and none where tiers is 0',
    holds: ({ start, tiers }) => {
      if (start === null) return true;
      const wanted = tiers === 0 ? 0 : tiers + 1;
      const isFor = (list: readonly unknown[]) => list.length === wanted;
      return isFor(start.rings ?? []) && (!Array.isArray(start.root) || isFor(start.root));
    },
  },
  usual('training.fragments', 'it is 1', ({ training }) => training.fragments === 1, {
    why: 'fragments cut the model across its rings',
    nearest: 'take --fragments 1',
  }),
  usual(
    'aggregation.rule',
    'it is mean or clipped-mean',
    ({ aggregation }) => ruleForms[aggregation.rule] === 'mean',
    {
      why: 'other rules compare rows, and rows of different tiers are of different length',
      nearest: 'take --rule clipped-mean',
    },
  ),
  usual(
    'aggregation.leastRatePermille',
    'it is 1000',
    ({ aggregation }) => aggregation.leastRatePermille === 1000,
    {
      why: 'how far rows agree is asked of whole rows',
      nearest: 'leave --least-rate-permille out',
    },
  ),
  usual('screening', 'it is false', ({ screening }) => !screening, {
    why: 'what a small tier learned is measured by nobody yet at its own width',
    nearest: 'leave --screening out',
  }),
  usual('scores', 'it is false', ({ scores }) => !scores, {
    why: 'what a small tier learned is measured by nobody yet at its own width',
    nearest: 'leave --scores out',
  }),
  usual('rerun.permille', 'it is 0', ({ rerun }) => rerun.permille === 0, {
    why: 'nobody runs the steps of another tier again yet',
    nearest: 'leave --rerun-permille out',
  }),
  usual('places', 'there is none', ({ places }) => places.length === 0, {
    why: 'manifests of checkpoints are of whole models',
    nearest: 'leave --place out',
  }),
  usual('placement', 'there is none', ({ placement }) => placement === null, {
    why: 'manifests of checkpoints are of whole models',
    nearest: 'leave it out',
  }),
];
