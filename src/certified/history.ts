/**
 * The certified state of a run and the one way it moves: outcome by outcome. The worker that plays and whoever replays the run
 * use the same functions, so a replay checks what was really done.
 */
import { weightedMean, weightOf } from '../consensus/aggregate/mean.ts';
import { boundRows, rootMeanSquare } from '../consensus/aggregate/norm-bound.ts';
import { liveWeights } from '../consensus/committee/committee.ts';
import { nesterovStep } from '../consensus/outer/nesterov.ts';
import {
  completeLedger,
  firstLedger,
  liveOf,
  nextLedger,
  type RosterChange,
} from '../consensus/round/membership.ts';
import { nextDepartures } from '../consensus/round/roster-change.ts';
import { type ModelState, modelRoot } from '../consensus/state-root.ts';
import { modelOf } from '../model/from-settings.ts';
import { initialParameters, modelLayout } from '../model/parameters.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { ledgerRoot } from '../run/ledger.ts';
import { type Outcome, outcomeDigest } from '../run/outcome.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import type { Params } from '../tensor/params.ts';
import type { Certified, Chain, Draft } from './chain-state.ts';
import { electorateOf, membershipOf, stakesOf } from './electorate.ts';
import { type Evidence, found, invalid, lacking, type Verdict } from './evidence.ts';
import { rosterChange } from './roster-events.ts';
import { acceptedRows, checkRejected, markEmpty, type Row } from './rows.ts';

export type { Certified, Chain, Draft } from './chain-state.ts';

/** What an outcome leads to. */
export interface Completed {
  readonly outcome: Outcome;
  readonly next: Certified;
}

/** A join names one of so many last outcomes. */
const RECENT = 16;

/** The state a run starts from. */
export function genesisOf(spec: RunSpec, params: Params, hash?: Hash): Certified {
  const run = runIdOf(spec);
  const ledger = firstLedger(membershipOf(spec, run));
  const momentum = params.values.slice().fill(0);
  const root = modelRoot({ params, momentum }, hash);
  return {
    ...{ spec, run, round: 0, parent: run, time: 0, params, momentum },
    ...{ ledger, ledgerRoot: ledgerRoot(ledger), modelRoot: root, before: null, recent: [run] },
    departed: [],
  };
}

type Hash = Parameters<typeof modelRoot>[1];

/** The same state with the entropy of its round, when the beacon it may need is there. */
export function withEntropy<T extends Chain>(chain: T, evidence: Evidence): Verdict<T> {
  if (chain.ledger.entropy !== null) return found(chain);
  const { spec, run, time } = chain;
  const beacon = evidence.beacon(time);
  if (beacon === undefined) return lacking({ what: 'beacon', id: String(time) });
  const ledger = completeLedger(membershipOf(spec, run), chain.ledger, beacon);
  return found({ ...chain, ledger });
}

/** A draft with its roots, and the state it leads to: what a proposer composes. */
export function completeOutcome(
  before: Certified,
  draft: Draft,
  evidence: Evidence,
  hash?: Hash,
): Verdict<Completed> {
  const ready = withEntropy(before, evidence);
  if (!ready.ok) return ready;
  const state = ready.value;
  const change = judgeDraft(state, draft, evidence);
  if (!change.ok) return change;
  const rejected = checkRejected(state, draft, evidence);
  if (!rejected.ok) return rejected;
  const rows = acceptedRows(state, draft, evidence);
  if (!rows.ok) return rows;
  const accepted = markEmpty(draft.accepted, rows.value);
  const { members } = state.ledger;
  const contributed = accepted
    .filter(({ empty }) => !empty)
    .map(({ index }) => members[index]!.key);
  const weights = rowWeights(state, evidence);
  if (!weights.ok) return weights;
  const { model, rowSize } = step(state, rows.value, weights.value);
  if (!model.params.values.every(Number.isFinite) || !model.momentum.every(Number.isFinite)) {
    return invalid('not-finite', 'accepted', 'the outer step leaves a value that is not finite');
  }
  const moved = rows.value.length > 0;
  const root = moved ? modelRoot(model, hash) : state.modelRoot;
  const moves = { ...change.value, contributed, rowSize };
  const { outcome, next } = follow(state, { ...draft, accepted }, moves, root);
  return found({ outcome, next: { ...next, ...model } });
}

/** The state after an outcome, when it is valid: everything of it recomputed, both roots compared. */
export function applyOutcome(
  state: Certified,
  outcome: Outcome,
  evidence: Evidence,
  hash?: Hash,
): Verdict<Certified> {
  const completed = completeOutcome(state, outcome, evidence, hash);
  if (!completed.ok) return completed;
  const wrong =
    differentRows(outcome, completed.value.outcome) ??
    differentRoot(outcome, completed.value.outcome);
  return wrong ?? found(completed.value.next);
}

/** The same without the model: manifests are not looked at, and the model root is taken from the outcome. */
export function applyToChain(chain: Chain, outcome: Outcome, evidence: Evidence): Verdict<Chain> {
  const ready = withEntropy(chain, evidence);
  if (!ready.ok) return ready;
  const change = judgeDraft(ready.value, outcome, evidence);
  if (!change.ok) return change;
  const { rowSize, modelRoot } = outcome;
  const followed = follow(ready.value, outcome, { ...change.value, rowSize }, modelRoot);
  return differentRoot(outcome, followed.outcome) ?? found(followed.next);
}

/** Everything of an outcome but its rows and roots. */
function judgeDraft(chain: Chain, draft: Draft, evidence: Evidence): Verdict<RosterChange> {
  const { run, round, parent, modelRoot: base } = chain;
  const expected = { run, round, parent, base };
  for (const name of ['run', 'round', 'parent', 'base'] as const) {
    if (draft[name] === expected[name]) continue;
    return invalid(`wrong-${name}`, name, `${name} is ${draft[name]}, not ${expected[name]}`);
  }
  if (draft.result === 'final' && draft.accepted.length === 0) {
    return invalid('nothing-accepted', 'accepted', 'a final outcome accepts something');
  }
  if (draft.result === 'void' && draft.accepted.length > 0) {
    return invalid('void-accepts', 'accepted', 'a void outcome accepts nothing');
  }
  const stakes = stakesOf(chain.ledger, evidence);
  if (!stakes.ok) return stakes;
  return rosterChange(chain, draft, electorateOf(chain, stakes.value), evidence);
}

/** Mean of the rows, outer step. Without rows nothing moves, not even the momentum. */
function step(
  { spec, params, momentum, ledger }: Certified,
  rows: readonly Row[],
  stakeOf: (worker: WorkerId) => number,
): { readonly model: ModelState; readonly rowSize: number } {
  if (rows.length === 0) return { model: { params, momentum }, rowSize: 0 };
  const { weights, normalize, outerLearningRate, momentum: kept } = spec.training;
  const { normBoundC, weightCap } = spec.limits;
  const { scales, typical: rowSize } = boundRows(
    rows.map(({ contribution }) => contribution.delta),
    { normBound: normBoundC, history: ledger.rowSizes, parameters: rootMeanSquare(params.values) },
  );
  const mean = weightedMean(
    rows.map(({ late, contribution: { worker, eventId: id, delta, examples } }, i) => ({
      ...{ worker, id, late, delta, scale: scales[i]! },
      weight: weightOf(examples, { weights, cap: weightCap }) * stakeOf(worker),
    })),
    { size: params.layout.size, normalize },
  );
  const outer = { learningRate: outerLearningRate, momentum: kept };
  const stepped = nesterovStep(params.values, momentum, mean, outer);
  const model = {
    params: { layout: params.layout, values: stepped.values },
    momentum: stepped.momentum,
  };
  return { model, rowSize };
}

/** What a row weighs beside its examples: in a run with stakes what its author weighs in the draw of committees, else 1. */
function rowWeights(state: Certified, evidence: Evidence): Verdict<(worker: WorkerId) => number> {
  const { spec, run, ledger } = state;
  const stakes = stakesOf(ledger, evidence);
  if (!stakes.ok) return stakes;
  if (stakes.value === null) return found(() => 1);
  const weights = liveWeights(
    liveOf(membershipOf(spec, run), ledger),
    stakes.value,
    spec.committee,
  );
  return found((worker) => weights.get(worker) ?? 0);
}

function follow(
  chain: Chain,
  draft: Draft,
  change: RosterChange,
  root: Digest,
): { readonly outcome: Outcome; readonly next: Chain } {
  const { spec, run, round, parent, modelRoot: base } = chain;
  const ledger = nextLedger(membershipOf(spec, run), chain.ledger, change);
  const { rowSize } = change;
  const outcome: Outcome = { ...draft, rowSize, modelRoot: root, ledgerRoot: ledgerRoot(ledger) };
  const digest = outcomeDigest(outcome);
  const recent = [...chain.recent, digest].slice(-RECENT);
  const next: Chain = {
    ...{ spec, run, recent, round: round + 1, parent: digest, time: outcome.time, ledger },
    ...{ modelRoot: root, ledgerRoot: outcome.ledgerRoot },
    before: { round, parent, base, ledger: chain.ledger },
    departed: nextDepartures(chain.departed, change.leaves, {
      round,
      oldest: round + 1 - recent.length,
    }),
  };
  return { outcome, next };
}

/** The first row that says wrongly whether its payload is empty. */
function differentRows(said: Outcome, found: Outcome): ReturnType<typeof invalid> | undefined {
  const isEmpty = ({ accepted }: Outcome, i: number): boolean => accepted[i]?.empty === true;
  const wrong = said.accepted.find((_, i) => isEmpty(said, i) !== isEmpty(found, i));
  if (wrong === undefined) return undefined;
  const word = wrong.empty ? 'not ' : '';
  return invalid('wrong-empty', 'accepted', `manifest ${wrong.manifest} is ${word}empty`);
}

function differentRoot(said: Outcome, found: Outcome): ReturnType<typeof invalid> | undefined {
  for (const name of ['rowSize', 'modelRoot', 'ledgerRoot'] as const) {
    if (said[name] === found[name]) continue;
    return invalid(`wrong-${name}`, name, `${name} is ${said[name]}, computed ${found[name]}`);
  }
  return undefined;
}

export function startOf({ training }: RunSpec): Params {
  const model = modelOf(training);
  return { layout: modelLayout(model), values: initialParameters(model, training.seed) };
}
