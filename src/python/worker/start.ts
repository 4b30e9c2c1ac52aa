/**
 * Determines the state from which a session starts: STATE alone, or a checkpoint. Any key can claim the highest round,
 * so a checkpoint on relays counts only if its author is named or is this worker, or if more authors than may lie
 * publish the same state.
 */
import { ok, type Result } from '../../base/errors.ts';
import { reorderTensors } from '../../formats/arithmetic.ts';
import { readModel, writeModel } from '../../formats/regression-state.ts';
import type { RegressionDataset } from '../../model/data/regression.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { compareCodePoints, type Params, stateDigest } from '../../tensor/params.ts';
import { genesis } from '../../worker/state.ts';
import type { CollectedEvent } from '../collect/collect.ts';
import type { CheckpointEvent } from '../collect/queries.ts';
import { evaluateRegression } from '../regression/train.ts';
import type { CheckpointBody } from '../wire/checkpoints.ts';
import { flipped } from '../wire/messages.ts';
import { readLateGradient, readReconciliation, readRoundRecord, textsOf } from '../wire/records.ts';
import { noHistory, type PythonState } from './session.ts';

export interface ResumeOptions {
  readonly nextRound: number;
  /** Also adopts the late gradients of the checkpoint; only for an author that is fully trusted. */
  readonly keepsLate: boolean;
  readonly lossBefore: number;
}

/** Returns the state to resume from, or which part of the checkpoint is invalid. */
export function resumeFrom(
  body: CheckpointBody,
  { nextRound, keepsLate, lossBefore }: ResumeOptions,
): Result<PythonState> {
  const records = readAll(body.rounds, readRoundRecord);
  if (!records.ok) return records;
  const late = readAll(keepsLate ? body.lateGradients : [], readLateGradient);
  if (!late.ok) return late;
  const reconciliations = readAll(keepsLate ? body.lateReconciliations : [], readReconciliation);
  if (!reconciliations.ok) return reconciliations;
  const first = genesis(body.state, lossBefore);
  return ok({
    ...first,
    round: nextRound,
    momentum: body.momentum?.values ?? first.momentum,
    history: {
      ...noHistory,
      records: records.value,
      late: late.value,
      reconciliations: reconciliations.value,
      lateSince: body.lateGradientSince || body.updatedAt,
    },
  });
}

function readAll<J, T>(items: readonly J[], read: (item: J) => Result<T>): Result<readonly T[]> {
  const all: T[] = [];
  for (const item of items) {
    const one = read(item);
    if (!one.ok) return one;
    all.push(one.value);
  }
  return ok(all);
}

export interface StartingOptions {
  /** A linear or mlp regression; trained in f64. */
  readonly initialState: Params;
  /** Training data of this worker. */
  readonly dataset: RegressionDataset;
  /** First round to play; default 0, or the next round of the resumed state. */
  readonly startRound?: number | undefined;
  /** Outer momentum in the Python reference's sign, as a session or `nesterovOuterStep` returns it; default zeros. */
  readonly momentumState?: Params | undefined;
  /** Name of the momentum in errors. */
  readonly momentumName?: string;
}

/** Returns the state before the first round, with its loss. Throws a ConfigError if the parts do not fit together. */
export function startingState(options: StartingOptions): PythonState {
  const { dataset, startRound, momentumState, momentumName = 'momentumState' } = options;
  const params = asModel(options.initialState);
  const state = {
    ...genesis(params, evaluateRegression(params, dataset)),
    round: startRound ?? 0,
    history: noHistory,
  };
  if (momentumState === undefined) return state;
  const { values } = reorderTensors(asModel(momentumState), params.layout, momentumName);
  return { ...state, momentum: flipped(values) };
}

/** Converts to f64 and to the Python reference's layout. */
const asModel = (params: Params): Params => writeModel(readModel(params));

/** A state and the authors that publish it. */
export interface Agreed {
  readonly round: number;
  readonly nextRound: number;
  readonly model: Digest;
  /** Digest of the outer momentum, in the sign of Δ = before - after; it must be equal too, since resuming uses it. */
  readonly momentum: Digest | undefined;
  /** Authors in ascending order, without those that publish several states for the same round. */
  readonly authors: readonly WorkerId[];
  readonly checkpoints: readonly CollectedEvent<CheckpointEvent>[];
}

/** Groups checkpoints by state: the highest next round first, within a round the state with most authors first. */
export function agreements(
  checkpoints: readonly CollectedEvent<CheckpointEvent>[],
): readonly Agreed[] {
  const states = new Map<string, CollectedEvent<CheckpointEvent>[]>();
  /** The states that each author publishes for a round. */
  const claims = new Map<string, Set<string>>();
  for (const kept of checkpoints) {
    const { tags, body } = kept.read;
    const momentum = body.momentum ? stateDigest(body.momentum) : '';
    const state = `${tags.nextRound}:${tags.round}:${tags.model}:${momentum}`;
    states.set(state, [...(states.get(state) ?? []), kept]);
    const claim = `${tags.nextRound}:${tags.worker}`;
    claims.set(claim, (claims.get(claim) ?? new Set()).add(state));
  }
  return [...states]
    .map(([state, of]): Agreed => {
      const { round, nextRound, model } = of[0]!.read.tags;
      const authors = new Set(of.map(({ read }) => read.tags.worker));
      const single = [...authors].filter(
        (author) => claims.get(`${nextRound}:${author}`)!.size === 1,
      );
      const momentum = state.slice(state.lastIndexOf(':') + 1) || undefined;
      return { round, nextRound, model, momentum, authors: single.sort(), checkpoints: of };
    })
    .sort(
      (a, b) =>
        b.nextRound - a.nextRound ||
        b.authors.length - a.authors.length ||
        compareCodePoints(a.model, b.model),
    );
}

/** Returns the newest state that at least `faults` + 1 authors publish. */
export const newestAgreed = (states: readonly Agreed[], faults: number): Agreed | undefined =>
  states.find(({ authors }) => authors.length > faults);

export type CollectedCheckpoint = CollectedEvent<CheckpointEvent>;

/** Which authors of checkpoints are trusted. */
export interface Trust {
  /** This worker's key. */
  readonly me: WorkerId;
  /** Trusted authors; if there are any, no other author is trusted. */
  readonly authors: readonly WorkerId[];
  /** Number of other authors that may lie: one more must publish the same state. */
  readonly faults: number;
}

/** The chosen checkpoint. */
export interface CheckpointChoice {
  readonly checkpoint: CollectedCheckpoint;
  /** Whether its author is fully trusted, not only for the state that other authors publish too. */
  readonly isVouched: boolean;
}

/** The result of `chooseCheckpoint`. */
export interface Judgement {
  readonly choice: CheckpointChoice | undefined;
  /** Checkpoints that claim a later state than the chosen one. */
  readonly refused: readonly { readonly checkpoint: CollectedCheckpoint; readonly why: string }[];
}

/** Returns the newest checkpoint that can be trusted, and why later ones are not. */
export function chooseCheckpoint(
  checkpoints: readonly CollectedCheckpoint[],
  trust: Trust,
): Judgement {
  const { me, authors, faults } = trust;
  const isNamed = ({ read, event }: CollectedCheckpoint) =>
    authors.length > 0 ? authors.includes(read.tags.worker) : event.pubkey === me;
  const vouched = newest(checkpoints.filter(isNamed));
  const voices = authors.length > 0 ? [] : checkpoints.filter(mayVote(vouched, me));
  const states = agreements(voices);
  const agreed = newestAgreed(states, faults);
  const shared = agreed && newest(agreed.checkpoints);
  const choice = choose(vouched, shared);
  const from = choice ? nextRound(choice.checkpoint) : -1;
  const refused = checkpoints
    .filter((one) => nextRound(one) > from)
    .map((checkpoint) => {
      if (authors.length > 0) return { checkpoint, why: 'its author is not the requested one' };
      const tags = states.find(({ checkpoints }) => checkpoints.includes(checkpoint));
      const count = tags?.authors.length ?? 0;
      return { checkpoint, why: `${count} of ${faults + 1} authors needed publish this state` };
    });
  return { choice, refused };
}

/** Returns a test for authors that count: those that trained with this worker before; without a past, all. */
function mayVote(vouched: CollectedCheckpoint | undefined, me: WorkerId) {
  const known = new Set(
    vouched?.read.body.rounds.flatMap((round) => textsOf(round.collected_workers)),
  );
  return ({ read: { tags }, event: { pubkey } }: CollectedCheckpoint) => {
    // one key can use any number of names
    if (tags.worker !== pubkey) return false;
    return vouched === undefined || pubkey === me || known.has(pubkey);
  };
}

function choose(
  vouched: CollectedCheckpoint | undefined,
  shared: CollectedCheckpoint | undefined,
): CheckpointChoice | undefined {
  if (vouched && (!shared || nextRound(vouched) >= nextRound(shared))) {
    return { checkpoint: vouched, isVouched: true };
  }
  return shared && { checkpoint: shared, isVouched: false };
}

const nextRound = ({ read }: CollectedCheckpoint): number => read.tags.nextRound;

const newest = (checkpoints: readonly CollectedCheckpoint[]): CollectedCheckpoint | undefined =>
  [...checkpoints].sort(
    (a, b) =>
      nextRound(b) - nextRound(a) || b.createdAt - a.createdAt || (a.eventId < b.eventId ? -1 : 1),
  )[0];
