/** A worker is told what of its work counted, and why the rest did not. */

import { expect, it } from 'vitest';
import { countedWork, describeCounted } from '../../src/certified/records/counted.ts';
import type { CertifiedSummary } from '../../src/certified/rounds/events.ts';
import { keyOf } from '../support/swarm.ts';

const ME = keyOf(0);
const OTHER = keyOf(1);

type Certificate = NonNullable<CertifiedSummary['certified']>;

const round = (
  index: number,
  accepted: readonly string[],
  { trainingLoss = 1, ...certified }: Partial<Certificate> & { trainingLoss?: number } = {},
): CertifiedSummary => ({
  index,
  accepted,
  trainingLoss,
  base: '',
  digest: '',
  refused: [],
  completionReason: 'strict',
  payloadBytes: 1,
  eventBytes: 1,
  residualShare: 0,
  secondsTraining: 1,
  secondsWaiting: 1,
  seconds: 2,
  certified: {
    result: 'final',
    attempt: 0,
    view: 0,
    root: '',
    signers: [OTHER],
    of: 2,
    rejected: [],
    faults: [],
    joined: [],
    left: [],
    late: [],
    ...certified,
  },
});

const told = (history: readonly CertifiedSummary[], rounds = history.length) =>
  describeCounted(countedWork(history, rounds, ME)).join('. ');

it('says nothing to a worker whose work counted in every round', () => {
  expect(told([round(0, [ME, OTHER]), round(1, [ME])])).toBe('');
});

it('counts a contribution that came a round late', () => {
  expect(told([round(0, [OTHER]), round(1, [ME, OTHER], { late: [ME] })])).toBe('');
});

it('names the reason of every round that does not count', () => {
  const history = [
    round(2, [OTHER]),
    round(3, [ME], { result: 'void' }),
    round(4, [OTHER], { rejected: [{ worker: ME, reason: 'base-mismatch' }] }),
    round(5, [OTHER], { trainingLoss: Number.NaN }),
    round(6, [ME, OTHER], { unused: [ME] }),
    round(7, [ME, OTHER]),
  ];
  expect(told(history, 8)).toBe(
    'Your work counted in 1 of 8 rounds. Not counted: decided before this worker took part: ' +
      'rounds 1 to 2; your work arrived after the round was decided: round 3; the round ended ' +
      'void: round 4; your work was refused (base-mismatch): round 5; this worker was away: ' +
      'round 6; the rule of the run left your work out: round 7',
  );
});

it('tells a worker that came after the end that nothing counted, and what to do', () => {
  expect(told([], 4)).toBe(
    'None of your work counted in this run (decided before this worker took part: rounds 1 to ' +
      '4). To take part, join the next run before it starts',
  );
});
