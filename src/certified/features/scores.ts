/**
 * Scores: members measure the previous round's contributions on shared data rows and report them in their next commits;
 * the weighted median of the listed commits is certified. The rows are drawn with the next round's randomness, which is
 * unknown when contributions are sent.
 */

import { deriveKey, type Key } from '../../base/rng.ts';
import { rollingScore } from '../../consensus/scores.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { IndexedScore } from '../../run/spec/feature-fields.ts';
import type { Vector } from '../../tensor/params.ts';
import {
  type Arrived,
  duplicatesAmong,
  MOST_SCORED,
  SCORE_ROWS,
  scoresOf,
} from '../../worker/gains.ts';
import type { Trainer } from '../../worker/ports.ts';
import type { Certified } from '../decisions/chain.ts';
import type { CertifiedRound } from '../rounds/events.ts';
import type { CertifiedFeature } from './feature.ts';

export const sharedRows = ({
  run,
  round,
  ledger,
}: Pick<Certified, 'run' | 'round' | 'ledger'>): Key =>
  deriveKey('nostrain/scores', run, round - 1, ledger.entropy ?? '');

interface Known {
  readonly params: Vector;
  readonly round: number;
  /** Contributions in order of arrival, whether listed or not. */
  arrived(): readonly Arrived[];
}

class RoundScoring {
  readonly #measure: NonNullable<Trainer['measure']>;
  readonly #onFailure: (round: number, error: unknown) => void;
  #scores = new Map<WorkerId, number>();
  #marks: ReadonlySet<string> = new Set();
  #round = -1;
  #known: Known | undefined;
  #working: Promise<void> = Promise.resolve();

  constructor(
    measure: NonNullable<Trainer['measure']>,
    onFailure: (round: number, error: unknown) => void,
  ) {
    this.#measure = measure;
    this.#onFailure = onFailure;
  }

  /** Begins a round: scores the contributions that arrived in the previous round, for the commits of this round. */
  begin(
    state: Pick<Certified, 'run' | 'round' | 'ledger' | 'params'>,
    arrived: Known['arrived'],
  ): void {
    const ended = this.#known;
    this.#known = { params: state.params.values, round: state.round, arrived };
    this.#round = state.round;
    this.#scores = new Map();
    if (ended?.round !== state.round - 1) return;
    const scores = this.#scores;
    this.#working = this.#working
      .then(() => this.#score(ended, sharedRows(state), scores))
      .catch((error: unknown) => this.#onFailure(ended.round, error));
  }

  /** Returns the scores for a commit of this round by roster index, as far as they are measured. */
  reportedScores({ round, ledger }: Pick<Certified, 'round' | 'ledger'>): readonly IndexedScore[] {
    if (round !== this.#round) return [];
    return ledger.members
      .flatMap(({ key }, index): readonly IndexedScore[] => {
        const score = this.#scores.get(key);
        return score === undefined ? [] : [[index, score]];
      })
      .slice(0, MOST_SCORED);
  }

  async #score(ended: Known, key: Key, scores: Map<WorkerId, number>): Promise<void> {
    const { params, round } = ended;
    const arrived = ended.arrived();
    const { duplicates, marks } = duplicatesAmong(arrived, this.#marks);
    this.#marks = marks;
    const losses = (values: Vector) =>
      this.#measure(values, 'validation', { key, rows: SCORE_ROWS });
    for await (const [worker, score] of scoresOf(params, arrived, duplicates, key, losses)) {
      // a later round has begun
      if (this.#round > round + 1) return;
      scores.set(worker, score);
    }
  }
}

/** Returns the certified scores of a ledger. */
const scoresIn = ({ members }: Ledger): NonNullable<CertifiedRound['scores']> =>
  members.flatMap(({ key: worker, features }) => {
    const { history = [], low } = features?.scores ?? {};
    const rolling = rollingScore(history);
    return history.length === 0
      ? []
      : [{ worker, last: history.at(-1)!, rolling, isLow: low === 1 }];
  });

/** Scores the contributions of each round and reports them in commits of the next round. */
export const scores: CertifiedFeature = {
  isIn: (spec) => spec.scores,
  create({ measuring, reporter }) {
    const scoring =
      measuring &&
      new RoundScoring(measuring.measure, (round, error) => reporter.unmeasured(round, error));
    return {
      judge({ state, arrived }) {
        scoring?.begin(state, arrived);
        return { commitFields: () => ({ scores: { of: scoring?.reportedScores(state) ?? [] } }) };
      },
    };
  },
  describe: ({ ledger }) => ({ scores: scoresIn(ledger) }),
};
