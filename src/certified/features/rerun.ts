/**
 * Checks a contribution by recomputing its inner steps from the private state its author committed to. Compares bits,
 * or distances within the run's band. Also lists which contributions can be checked.
 */

import { toHex } from '../../base/bytes.ts';
import { TrainingError } from '../../base/errors.ts';
import { Attachments } from '../../network/attachments/attachments.ts';
import type { RelaySession } from '../../network/attachments/relay-chunks.ts';
import type { PayloadRoot } from '../../network/chunks/payload.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import { createPacker } from '../../network/wire/packer.ts';
import { isDrawn } from '../../run/committee.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import { deletedOf } from '../../run/ledger.ts';
import type { Outcome } from '../../run/outcome.ts';
import { isAllowedStepCount } from '../../run/settings.ts';
import type { Trainer } from '../../worker/ports.ts';
import { takeSent } from '../../worker/residual.ts';
import type { PrivateState } from '../../worker/strategy.ts';
import { type InnerEnd, innerPhase } from '../../worker/train.ts';
import {
  type Certified,
  type Chain,
  type StakeEvidence,
  type Taken,
  withEntropy,
} from '../decisions/chain.ts';
import {
  assignmentOf,
  judgeSubmission,
  roundParametersOf,
  unwrapRuling,
} from '../decisions/contributions.ts';
import type { Evidence, Gathered } from '../decisions/evidence.ts';
import { hasModel, pathOf, replay, withoutModel } from '../decisions/replay.ts';
import { residualLeft } from '../state.ts';
import {
  type Commitment,
  encodePrivate,
  mostPrivateBytes,
  readPrivate,
  rootOf,
} from './disclosure.ts';

/** A contribution that the outcome of its own round lists. */
export interface ListedContribution {
  readonly round: number;
  readonly worker: WorkerId;
  readonly manifest: EventId;
  /** The next round's randomness drew it, so its author discloses its private state. */
  readonly drawn: boolean;
}

/** Returns all listed contributions round by round, without late ones. */
export function listedContributions(start: Chain, events: Gathered): readonly ListedContribution[] {
  const stops = [...pathOf(withoutModel(start), events).stops.values()];
  return stops.flatMap(({ chain, outcome }, i) => {
    const before = stops[i - 1]?.chain;
    if (outcome === undefined || before === undefined) return [];
    const ready = withEntropy(chain, events);
    const entropy = ready.ok ? ready.value.ledger.entropy : null;
    const { run, spec } = chain;
    const { round } = outcome;
    const contributions = outcome.accepted.filter(({ late }) => !late);
    return contributions.map(({ index, manifest }) => {
      const worker = before.ledger.members[index]!.key;
      const wasDrawn =
        entropy !== null && isDrawn({ run, round, worker, entropy }, spec.rerun.permille);
      return { round, worker, manifest, drawn: wasDrawn };
    });
  });
}

export interface Checkable {
  readonly listed: ListedContribution;
  readonly contribution: CheckableContribution | CheckReason;
}

/** A decided round, with what a check of its contributions needs. */
export interface CheckedRound {
  readonly state: Certified;
  readonly outcome: Outcome;
  readonly taken: Certified['taken'];
}

/**
 * Yields the wanted contributions round by round while a replay recomputes the model. Ends early if the model cannot be
 * recomputed.
 */
export function* checkable(
  start: Certified,
  events: Gathered,
  wanted: readonly ListedContribution[],
): Generator<Checkable, void, undefined> {
  const contributions = wanted.map((listed) => ({ listed, ...manifestsOf(listed, events) }));
  const lastRound = Math.max(...wanted.map(({ round }) => round));
  const kept = new Map<number, CheckedRound>();
  for (const { round, before, decided } of replay(start, events)) {
    if (!hasModel(before) || decided === undefined) return;
    const ended = kept.get(round - 1);
    if (ended) kept.set(round - 1, { ...ended, taken: before.taken });
    const ready = withEntropy(before, events);
    if (!ready.ok) return;
    const state = ready.value;
    for (const { listed, current, last } of contributions) {
      if (listed.round !== round) continue;
      yield { listed, contribution: checkableFrom(state, current, last, kept, events) };
    }
    if (round >= lastRound) return;
    const open = contributions.filter(({ listed }) => listed.round > round);
    const needed = new Set(open.map(({ last }) => last?.round));
    for (const old of kept.keys()) if (!needed.has(old)) kept.delete(old);
    if (needed.has(round)) kept.set(round, { state, outcome: decided.outcome, taken: undefined });
  }
}

type Sent = Pick<Evidence, 'message' | 'payload'>;

/** Returns what a check of this contribution needs, or why it cannot be checked; `state` is that of its round. */
export function checkableOf(
  listed: ListedContribution,
  state: Certified,
  kept: ReadonlyMap<number, CheckedRound>,
  events: Sent,
): CheckableContribution | CheckReason {
  const { current, last } = manifestsOf(listed, events);
  return checkableFrom(state, current, last, kept, events);
}

/** Returns a contribution's manifest and the previous manifest that it names, as far as they are available. */
function manifestsOf({ manifest, worker, round }: ListedContribution, events: Sent) {
  const current = manifestBy(manifest, worker, events);
  const last = current?.prev === undefined ? undefined : manifestBy(current.prev, worker, events);
  return { current: current, last: last && last.round < round ? last : undefined };
}

function manifestBy(id: EventId, worker: WorkerId, events: Sent): Manifest | undefined {
  const message = events.message(id);
  const isByWorker = message?.type === 'manifest' && message.manifest.worker === worker;
  return isByWorker ? message.manifest : undefined;
}

function checkableFrom(
  state: Certified,
  manifest: Manifest | undefined,
  last: Manifest | undefined,
  kept: ReadonlyMap<number, CheckedRound>,
  events: Sent,
): CheckableContribution | CheckReason {
  const payload = manifest && events.payload(manifest);
  if (manifest === undefined || payload === undefined) return 'not-shown';
  const now = { state, manifest, payload };
  if (manifest.prev === undefined) return { ...now, last: undefined };
  const before = last && kept.get(last.round);
  const sent = last && events.payload(last);
  // the previous contribution is on an abandoned branch, or was never sent
  if (!before || !sent || before.state.parent !== last.parent) return 'not-linked';
  return { ...now, last: { ...before, manifest: last, payload: sent } };
}

export interface SentFrom {
  /** State that the contribution starts from, with the entropy of its round. */
  readonly state: Certified;
  readonly manifest: Manifest;
  readonly payload: Uint8Array;
}

/** A listed contribution together with its author's previous one. */
export interface CheckableContribution extends SentFrom {
  /** The author's previous contribution and its outcome; undefined for a first contribution. */
  readonly last:
    | (SentFrom & { readonly outcome: Outcome; readonly taken: Taken | undefined })
    | undefined;
}

/** Result of a check: identical bits, within the band, a mismatch, or too little disclosed. */
export type CheckResult = 'same' | 'near' | 'fault' | 'unanswered';

export type CheckReason =
  | 'not-shown'
  | 'not-linked'
  | 'not-a-state'
  | 'other-bits'
  | 'other-steps'
  | 'other-payload'
  | 'other-count';

/** Finding of a check. */
export interface CheckFinding {
  readonly result: CheckResult;
  readonly reason?: CheckReason;
  /** Distance between the result and the committed state, in millionths of the length of the step. */
  readonly apartPpm?: number;
}

export interface CheckTools {
  /** Trains on the shard that the author named. */
  readonly trainer: Pick<Trainer, 'train' | 'origin'>;
  readonly evidence: StakeEvidence;
  /** Returns the bytes of a root from the run's rerun relays; undefined if they have none. */
  fetch(root: PayloadRoot): Promise<Uint8Array | undefined>;
  readonly sha256: Sha256;
  readonly signal: AbortSignal;
  onProgress?(step: number, steps: number): void;
}

/** Time without a new chunk after which a private state counts as not disclosed. */
const IDLE_MS = 20_000;

/** Returns a function that fetches private states by root from these relays. */
export function statesOn(session: RelaySession): CheckTools['fetch'] {
  const attachments = new Attachments(session);
  const limits = { signal: session.signal, idleMs: IDLE_MS };
  return async (state) => (await attachments.pull({ ...state, worker: '' }, limits).done)?.payload;
}

const unanswered = (reason: CheckReason): CheckFinding => ({ result: 'unanswered', reason });
const fault = (reason: CheckReason): CheckFinding => ({ result: 'fault', reason });

/**
 * Recomputes the steps of a contribution and compares the result. Rejects if the signal aborts or this machine fails.
 */
export async function checkContribution(
  contribution: CheckableContribution,
  tools: CheckTools,
): Promise<CheckFinding> {
  const { last, manifest, state } = contribution;
  const commitment = manifest.features?.rerun;
  if (commitment === undefined) return unanswered('not-linked');
  const { batchSize, innerSteps } = state.spec.training;
  const { steps, examples } = manifest;
  const isInTime = isAllowedStepCount(steps, state.spec.pace, innerSteps);
  if (!isInTime || examples !== steps * batchSize) return fault('other-count');
  const before = await previousState(contribution, tools);
  if ('result' in before) return before;
  const residual = last && before.state ? residualAfter(last, before.state, tools) : undefined;
  if (last && residual === undefined) return unanswered('not-linked');
  const end = await rerunSteps(contribution, residual, before.state?.moments ?? [], tools);
  if (end === undefined) return fault('other-steps');
  return compare(contribution, commitment, end, tools);
}

/** Returns the author's private state after its previous contribution; undefined if there was none. */
async function previousState(
  { last, state }: CheckableContribution,
  tools: CheckTools,
): Promise<CheckFinding | { readonly state: PrivateState | undefined }> {
  if (last === undefined) return { state: undefined };
  const commitment = last.manifest.features?.rerun;
  if (commitment === undefined) return unanswered('not-linked');
  const disclosed = await fetchDisclosed(commitment, state.params.layout.size, tools);
  return 'result' in disclosed ? disclosed : { state: disclosed };
}

async function fetchDisclosed(
  commitment: Commitment,
  size: number,
  { fetch }: CheckTools,
): Promise<CheckFinding | PrivateState> {
  if (commitment.bytes > mostPrivateBytes(size)) return fault('not-a-state');
  const bytes = await fetch(commitment);
  if (bytes === undefined) return unanswered('not-shown');
  return readPrivate(bytes, size) ?? fault('not-a-state');
}

/** Returns the residual after the outcome of the previous contribution; undefined if its payload is invalid. */
function residualAfter(
  { state, manifest, payload, outcome, taken }: NonNullable<CheckableContribution['last']>,
  disclosed: PrivateState,
  { evidence }: CheckTools,
): Float64Array | undefined {
  const roundParameters = unwrapRuling(roundParametersOf(state, evidence));
  const judged = judgeSubmission(manifest, payload, roundParameters);
  if (!judged.ok) return undefined;
  const delta = Float64Array.from(disclosed.delta);
  const rule = state.spec.training.residual;
  const { residual } = takeSent(delta, judged.value.delta, rule);
  const { eventId: id, worker } = manifest;
  const learned = { id, worker, unpacked: disclosed.delta, residual, waits: false };
  return residualLeft(learned, state, outcome, evidence, taken);
}

/** Repeats the inner phase; undefined if values become non-finite or the moments do not fit the model. */
async function rerunSteps(
  { state, manifest }: CheckableContribution,
  residual: Float64Array | undefined,
  moments: readonly Float32Array[],
  { trainer, signal, onProgress }: CheckTools,
): Promise<InnerEnd | undefined> {
  const { round, params, spec } = state;
  const start = {
    round,
    params: params.values,
    moments,
    worker: manifest.worker,
    steps: manifest.steps,
    without: deletedOf(state.ledger),
    residual: residual ?? new Float64Array(params.layout.size),
  };
  const report = ({ step, steps }: { step: number; steps: number }) => onProgress?.(step, steps);
  try {
    return await innerPhase(start, spec.training, trainer, report, signal);
  } catch (error) {
    const code = error instanceof TrainingError ? error.code : '';
    if (code !== 'training/not-finite' && code !== 'training/moments') throw error;
    return undefined;
  }
}

async function compare(
  contribution: CheckableContribution,
  commitment: Commitment,
  { trained, delta }: InnerEnd,
  tools: CheckTools,
): Promise<CheckFinding> {
  const { state, payload } = contribution;
  const recomputed = encodePrivate({ delta, moments: trained.moments });
  const computedRoot = rootOf(recomputed, tools.sha256);
  if (computedRoot.root === commitment.root && computedRoot.bytes === commitment.bytes) {
    return isPackedFrom(contribution, delta, payload, tools)
      ? { result: 'same' }
      : fault('other-payload');
  }
  const { build } = tools.trainer.origin ?? { build: '' };
  const isAlike = build === commitment.build && build !== 'unknown';
  const disclosed = await fetchDisclosed(commitment, state.params.layout.size, tools);
  if ('result' in disclosed) return isAlike ? fault('other-bits') : disclosed;
  const length = Math.sqrt(energyOf(state.params.values, trained.params));
  const apartPpm = apart(delta, trained.moments, disclosed, length);
  if (isAlike) return { ...fault('other-bits'), apartPpm };
  if (!isPackedFrom(contribution, disclosed.delta, payload, tools))
    return { ...fault('other-payload'), apartPpm };
  if (apartPpm > state.spec.rerun.bandPpm) return { ...fault('other-steps'), apartPpm };
  return { result: 'near', apartPpm };
}

function isPackedFrom(
  { state, manifest }: SentFrom,
  delta: Float64Array,
  payload: Uint8Array,
  { evidence, sha256 }: CheckTools,
): boolean {
  const { run, round, spec, params } = state;
  const packer = createPacker({
    run,
    layout: params.layout,
    sha256,
    eventBudget: spec.training.eventBudget,
  });
  const assignment = assignmentOf(unwrapRuling(roundParametersOf(state, evidence)));
  const context = { round, worker: manifest.worker, assignment };
  const repacked = packer.packLike(payload, delta, context);
  return repacked !== undefined && toHex(sha256(repacked)) === manifest.hash;
}

type Numbers = Float32Array | Float64Array;

function energyOf(a: Numbers, b: Numbers): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return sum;
}

/**
 * Returns the largest relative distance in millionths, rounded up: of the delta relative to the step, and of each
 * moment vector.
 */
function apart(
  whole: Float64Array,
  moments: readonly Float32Array[],
  disclosed: PrivateState,
  length: number,
): number {
  const isLike = moments.every((part, i) => part.length === disclosed.moments[i]?.length);
  if (moments.length !== disclosed.moments.length || !isLike) return MOST_APART;
  const shares = [Math.sqrt(energyOf(whole, disclosed.delta)) / length];
  for (const [i, part] of moments.entries()) {
    const magnitude = Math.sqrt(energyOf(part, new Float32Array(part.length)));
    shares.push(Math.sqrt(energyOf(part, disclosed.moments[i]!)) / magnitude);
  }
  const ppm = shares.map((share) => (Number.isNaN(share) ? 0 : Math.ceil(1e6 * share)));
  return Math.min(MOST_APART, Math.max(...ppm));
}

const MOST_APART = 1_000_000_000;
