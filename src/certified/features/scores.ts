/**
 * Scores of certified runs: a member measures the contributions of the round that is over on rows that all members share, and says so in its
 * commit of the next one; what the listed commits say becomes one score of each key, the weighted median. The rows are drawn with the randomness of
 * the round to come, which nobody has before contributions are sent but the proposer of the last outcome, nor that one where a run has a beacon.
 */

import { deriveKey, type Key } from '../../base/rng.ts';
import { scoreAt, scoreOfGain, type Witnessed } from '../../consensus/scores.ts';
import type { Contribution } from '../../run/contribution.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { ScoredPlace } from '../../run/spec/feature-fields.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Vector } from '../../tensor/params.ts';
import { CHUNK_LENGTH, type PartialVector } from '../../tensor/partial-vector.ts';
import type { Trainer } from '../../worker/ports.ts';
import { type Certificate, judgeVotes } from '../decisions/certificate.ts';
import type { Certified, Chain, Draft, Past, Situation } from '../decisions/chain.ts';
import { type Evidence, found, invalid, type Verdict } from '../decisions/evidence.ts';
import type { Reporter } from '../rounds/events.ts';
import { createScreening, gainOf, type Screening } from './screening.ts';

const ROWS = 32;
/** Contributions that are scored in one round at most; the same ones by everybody. */
const MOST_SCORED = 64;

export const sharedRows = ({
  run,
  round,
  ledger,
}: Pick<Certified, 'run' | 'round' | 'ledger'>): Key =>
  deriveKey('nostrain/scores', run, round - 1, ledger.entropy ?? '');

interface Voters {
  readonly keys: readonly WorkerId[];
  /** What their votes make of the contributions of the round before theirs. */
  readonly scores: ReadonlyMap<WorkerId, number> | null;
}

/**
 * Who signed the listed votes. They decided the round before; round 0 has none before it. Who is proven faulty by now, or by this outcome
 * (`culprits`), is among them, for a certificate must not depend on who has seen the proof; its scores weigh nothing.
 */
export function votersOf(
  { spec, run, before, parent, ledger }: Chain,
  { votes }: Draft,
  culprits: readonly WorkerId[],
  evidence: Evidence,
): Verdict<Voters> {
  if (before === null) {
    return votes === null
      ? found({ keys: [], scores: null })
      : invalid('no-quorum', 'votes', 'votes before round 0');
  }
  const past: Situation = { spec, run, ...before };
  const certificate = judgeVotes(past, parent, votes, evidence);
  if (!certificate.ok) return certificate;
  const out = new Set([...ledger.faulted, ...culprits]);
  const scores = spec.scores ? scoresOf(before, certificate.value, out) : null;
  return found({ keys: certificate.value.commits.map(({ key }) => key), scores });
}

/** What the listed commits of a round make of the contributions of the one before it; null where too few scored. */
function scoresOf(
  { round, ledger }: Past,
  { committee, commits }: Certificate,
  out: ReadonlySet<WorkerId>,
): ReadonlyMap<WorkerId, number> | null {
  const weights = new Map(committee.members.map((key, seat) => [key, committee.weights[seat]!]));
  const witnesses = commits
    .filter(({ key }) => !out.has(key))
    .map(
      ({ key, features }): Witnessed => ({
        weight: weights.get(key) ?? 0n,
        scores: new Map(features?.scores?.of ?? []),
      }),
    );
  const scores = new Map<WorkerId, number>();
  for (const [place, { key, joined }] of ledger.members.entries()) {
    // who was not in the roster could send nothing
    if (joined >= round) continue;
    const score = scoreAt(place, witnesses);
    if (score === null) return null;
    scores.set(key, score);
  }
  return scores;
}

type Arrived = Pick<Contribution, 'worker' | 'delta'>;

/** Marks of the chunks that bring anything: equal values have one mark. */
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
 * Whose contribution is mostly made of chunks that arrived before: from another worker in this round, or from anybody in the round before. Who
 * copies has to wait for what it copies, so that most members see the original first.
 */
export function copiesAmong(
  arrived: readonly Arrived[],
  before: ReadonlySet<string>,
): { readonly copies: ReadonlySet<WorkerId>; readonly marks: ReadonlySet<string> } {
  const marks = new Set<string>();
  const copies = new Set<WorkerId>();
  for (const { worker, delta } of arrived) {
    const own = marksOf(delta);
    const known = own.filter((mark) => marks.has(mark) || before.has(mark));
    if (known.length > 0 && 2 * known.length >= own.length) copies.add(worker);
    for (const mark of own) marks.add(mark);
  }
  return { copies, marks };
}

interface Known {
  /** What its contributions start from. */
  readonly params: Vector;
  readonly round: number;
  /** Listed or not, in the order in which they arrived. */
  arrived(): readonly Arrived[];
}

export class Scoring {
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

  /** Resolves when everything is scored that was given until now. */
  get idle(): Promise<void> {
    return this.#working;
  }

  /** Begins a round: what arrived in the one before is scored from now on, and said in commits of this one. */
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

  /** What a commit of this round says, by place in its roster; of what is scored by now. */
  said({ round, ledger }: Pick<Certified, 'round' | 'ledger'>): readonly ScoredPlace[] {
    if (round !== this.#round) return [];
    return ledger.members
      .flatMap(({ key }, place): readonly ScoredPlace[] => {
        const score = this.#scores.get(key);
        return score === undefined ? [] : [[place, score]];
      })
      .slice(0, MOST_SCORED);
  }

  async #score(ended: Known, key: Key, scores: Map<WorkerId, number>): Promise<void> {
    const { params, round } = ended;
    const arrived = ended.arrived();
    const { copies, marks } = copiesAmong(arrived, this.#marks);
    this.#marks = marks;
    const draw = ({ worker }: Arrived) => deriveKey('nostrain/scores/order', ...key, worker)[0];
    const chosen = [...arrived].sort((a, b) => draw(a) - draw(b)).slice(0, MOST_SCORED);
    const losses = (values: Vector) => this.#measure(values, 'validation', { key, rows: ROWS });
    const before = await losses(params);
    for (const contribution of chosen) {
      // a later round began
      if (this.#round > round + 1) return;
      const { gain } = await gainOf(params, contribution, before, losses);
      const isCopy = copies.has(contribution.worker);
      scores.set(contribution.worker, isCopy ? Math.min(0, scoreOfGain(gain)) : scoreOfGain(gain));
    }
  }
}

export interface Measuring {
  readonly measure: NonNullable<Trainer['measure']>;
  /** Makes this worker's own rows nobody else's. */
  readonly secret: string;
}

export interface Measurers {
  readonly screening?: Screening | undefined;
  readonly scoring?: Scoring | undefined;
}

export function measurersOf(
  spec: RunSpec,
  measuring: Measuring | undefined,
  reporter: Pick<Reporter, 'unmeasured'>,
): Measurers {
  if (measuring === undefined) return {};
  const { measure, secret } = measuring;
  const onFailure = (round: number, error: unknown) => reporter.unmeasured(round, error);
  return {
    screening: spec.screening ? createScreening(measure, secret) : undefined,
    scoring: spec.scores ? new Scoring(measure, onFailure) : undefined,
  };
}
