/**
 * Scores: members measure the previous round's contributions on shared data rows and report them in their next commits;
 * the weighted median of the listed commits is certified. The rows are drawn with the next round's randomness, which is
 * unknown when contributions are sent.
 */

import { deriveKey, type Key } from '../../base/rng.ts';
import { rollingScore, scoreOfGain } from '../../consensus/scores.ts';
import type { Contribution } from '../../run/contribution.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { IndexedScore } from '../../run/spec/feature-fields.ts';
import type { Vector } from '../../tensor/params.ts';
import { CHUNK_LENGTH, type PartialVector } from '../../tensor/partial-vector.ts';
import type { Trainer } from '../../worker/ports.ts';
import type { Certified } from '../decisions/chain.ts';
import type { CertifiedRound } from '../rounds/events.ts';
import type { CertifiedFeature } from './feature.ts';
import { gainOf } from './screening.ts';

const ROWS = 32;
/** Maximum contributions scored in one round; all members choose the same ones. */
const MOST_SCORED = 64;

export const sharedRows = ({
  run,
  round,
  ledger,
}: Pick<Certified, 'run' | 'round' | 'ledger'>): Key =>
  deriveKey('nostrain/scores', run, round - 1, ledger.entropy ?? '');

type Arrived = Pick<Contribution, 'worker' | 'delta'>;

/** Returns a fingerprint of each non-empty chunk; equal values give equal fingerprints. */
function marksOf(delta: PartialVector): readonly string[] {
  const values = new Float64Array(CHUNK_LENGTH);
  const words = new Int32Array(values.buffer);
  return Array.from(delta.chunks).flatMap((chunk, position) => {
    values.fill(0);
    delta.addChunk(position, 1, values, 0);
    let [a, b] = [0x9e3779b9 | 0, chunk];
    let isEmpty = true;
    for (const word of words) {
      if (word !== 0) isEmpty = false;
      a = Math.imul(a ^ word, 0x85ebca6b);
      b = (Math.imul(b, 0xc2b2ae35) + (word ^ (a >>> 15))) | 0;
    }
    return isEmpty ? [] : [`${chunk}/${a}/${b}`];
  });
}

/**
 * Finds contributions of which at least half the chunks repeat chunks of this round or of the previous one. A copier
 * has to wait for the original, so most members receive the original first.
 */
export function duplicatesAmong(
  arrived: readonly Arrived[],
  before: ReadonlySet<string>,
): { readonly duplicates: ReadonlySet<WorkerId>; readonly marks: ReadonlySet<string> } {
  const marks = new Set<string>();
  const duplicates = new Set<WorkerId>();
  for (const { worker, delta } of arrived) {
    const chunkMarks = marksOf(delta);
    const repeated = chunkMarks.filter((mark) => marks.has(mark) || before.has(mark));
    if (repeated.length > 0 && 2 * repeated.length >= chunkMarks.length) duplicates.add(worker);
    for (const mark of chunkMarks) marks.add(mark);
  }
  return { duplicates, marks };
}

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

  /** Resolves when all scoring started so far is done. */
  get idle(): Promise<void> {
    return this.#working;
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
    const draw = ({ worker }: Arrived) => deriveKey('nostrain/scores/order', ...key, worker)[0];
    const chosen = [...arrived].sort((a, b) => draw(a) - draw(b)).slice(0, MOST_SCORED);
    const losses = (values: Vector) => this.#measure(values, 'validation', { key, rows: ROWS });
    const before = await losses(params);
    for (const contribution of chosen) {
      // a later round has begun
      if (this.#round > round + 1) return;
      const { gain } = await gainOf(params, contribution, before, losses);
      const isDuplicate = duplicates.has(contribution.worker);
      scores.set(
        contribution.worker,
        isDuplicate ? Math.min(0, scoreOfGain(gain)) : scoreOfGain(gain),
      );
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
