/**
 * Runs the inner phase of a listed contribution again, from the private state that its author committed to, and says whether it leads to what the
 * author sent: bit for bit where both machines compute alike, within the run's band otherwise. Needs no key; anybody who has the same bytes
 * finds the same.
 */
import { toHex } from '../../base/bytes.ts';
import { TrainingError } from '../../base/errors.ts';
import type { PayloadRoot } from '../../network/chunks/payload.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import { createPacker } from '../../network/wire/packer.ts';
import type { Outcome } from '../../run/outcome.ts';
import { isInPace } from '../../run/pace.ts';
import type { Trainer } from '../../worker/ports.ts';
import { takeSent } from '../../worker/residual.ts';
import type { PrivateState } from '../../worker/strategy.ts';
import { type InnerEnd, innerPhase } from '../../worker/train.ts';
import type { Certified, StakeEvidence, Taken } from '../decisions/chain.ts';
import { judgeSubmission } from '../decisions/rows.ts';
import { assignmentOf, known, termsOf } from '../decisions/terms.ts';
import { residualLeft } from '../state.ts';
import {
  type Commitment,
  encodePrivate,
  mostPrivateBytes,
  readPrivate,
  rootOf,
} from './private-state.ts';

/** A contribution with the certified state that it was made from. */
export interface Made {
  /** With the entropy of its round. */
  readonly state: Certified;
  readonly manifest: Manifest;
  readonly payload: Uint8Array;
}

/** A listed contribution, with what its author had sent before. */
export interface CheckedRow extends Made {
  /** The contribution before it, and what became of that; undefined where it is the first. */
  readonly last:
    | (Made & { readonly outcome: Outcome; readonly taken: Taken | undefined })
    | undefined;
}

/** How a check ended: the same bits; near enough; not what the author says; or it was not shown what it takes to say. */
export type CheckResult = 'same' | 'near' | 'fault' | 'unanswered';

export type CheckReason =
  /** What the author committed to is on none of the named relays. */
  | 'not-shown'
  /** Its last contribution is not on this branch, or it committed to nothing. */
  | 'not-linked'
  /** It committed to what is no private state of this model. */
  | 'not-a-state'
  /** The steps lead to other bits on a machine that computes alike. */
  | 'other-bits'
  /** They lead further away than machines differ. */
  | 'other-steps'
  /** The payload is not what it committed to. */
  | 'other-payload'
  /** It says another number of steps or examples. */
  | 'other-count';

/** What a check found. */
export interface Finding {
  readonly result: CheckResult;
  readonly reason?: CheckReason;
  /** How far what came out lies from what the author committed to, in millionths of the length of the step; where both are known. */
  readonly apartPpm?: number;
}

/** What a check is made with. */
export interface CheckTools {
  /** On the shard that the author named. */
  readonly trainer: Pick<Trainer, 'train' | 'origin'>;
  readonly evidence: StakeEvidence;
  /** The bytes of this root, from where the run says that they are; undefined where they are not. */
  fetch(root: PayloadRoot): Promise<Uint8Array | undefined>;
  readonly sha256: Sha256;
  readonly signal: AbortSignal;
  /** Called for each slice of steps. */
  onProgress?(step: number, steps: number): void;
}

const unanswered = (reason: CheckReason): Finding => ({ result: 'unanswered', reason });
const fault = (reason: CheckReason): Finding => ({ result: 'fault', reason });

/** Runs the steps of a contribution again and compares. Rejects with the reason of the signal, and where this machine fails. */
export async function checkRow(row: CheckedRow, tools: CheckTools): Promise<Finding> {
  const { last, manifest, state } = row;
  const said = manifest.features?.rerun;
  if (said === undefined) return unanswered('not-linked');
  const { batchSize, innerSteps } = state.spec.training;
  const { steps, examples } = manifest;
  const isInTime = isInPace(steps, state.spec.pace, innerSteps);
  if (!isInTime || examples !== steps * batchSize) return fault('other-count');
  const before = await shownBefore(row, tools);
  if ('result' in before) return before;
  const residual = last && before.state ? residualAfter(last, before.state, tools) : undefined;
  if (last && residual === undefined) return unanswered('not-linked');
  const end = await runAgain(row, residual, before.state?.moments ?? [], tools);
  if (end === undefined) return fault('other-steps');
  return compare(row, said, end, tools);
}

/** What the author knew when it had sent the contribution before; nothing where there is none. */
async function shownBefore(
  { last, state }: CheckedRow,
  tools: CheckTools,
): Promise<Finding | { readonly state: PrivateState | undefined }> {
  if (last === undefined) return { state: undefined };
  const said = last.manifest.features?.rerun;
  if (said === undefined) return unanswered('not-linked');
  const shown = await shownAs(said, state.params.layout.size, tools);
  return 'result' in shown ? shown : { state: shown };
}

/** The private state that somebody committed to. */
async function shownAs(
  said: Commitment,
  size: number,
  { fetch }: CheckTools,
): Promise<Finding | PrivateState> {
  if (said.bytes > mostPrivateBytes(size)) return fault('not-a-state');
  const bytes = await fetch(said);
  if (bytes === undefined) return unanswered('not-shown');
  return readPrivate(bytes, size) ?? fault('not-a-state');
}

/** What was left to send of a private state, once the outcome of its round was known; undefined where its payload was none. */
function residualAfter(
  { state, manifest, payload, outcome, taken }: NonNullable<CheckedRow['last']>,
  shown: PrivateState,
  { evidence }: CheckTools,
): Float64Array | undefined {
  const terms = known(termsOf(state, evidence));
  const judged = judgeSubmission(manifest, payload, terms);
  if (!judged.ok) return undefined;
  const { moving } = assignmentOf(terms);
  const delta = Float64Array.from(shown.delta);
  const rule = state.spec.training.residual;
  const { residual } = takeSent(delta, judged.value.delta, rule, moving);
  const { eventId: id, worker } = manifest;
  const learned = { id, worker, unpacked: shown.delta, residual, waits: false };
  return residualLeft(learned, state, outcome, evidence, taken);
}

/** The inner phase once more; undefined where its numbers stop being finite, or the moments are of no such model. */
async function runAgain(
  { state, manifest }: CheckedRow,
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
    residual: residual ?? new Float64Array(params.layout.size),
  };
  const told = ({ step, steps }: { step: number; steps: number }) => onProgress?.(step, steps);
  try {
    return await innerPhase(start, spec.training, trainer, told, signal);
  } catch (error) {
    const code = error instanceof TrainingError ? error.code : '';
    if (code !== 'training/not-finite' && code !== 'training/moments') throw error;
    return undefined;
  }
}

/** What came out against what was said. */
async function compare(
  row: CheckedRow,
  said: Commitment,
  { trained, delta }: InnerEnd,
  tools: CheckTools,
): Promise<Finding> {
  const { state, payload } = row;
  const own = encodePrivate({ delta, moments: trained.moments });
  const found = rootOf(own, tools.sha256);
  if (found.root === said.root && found.bytes === said.bytes) {
    return isPackedFrom(row, delta, payload, tools) ? { result: 'same' } : fault('other-payload');
  }
  const { build } = tools.trainer.origin ?? { build: '' };
  const isAlike = build === said.build && build !== 'unknown';
  const shown = await shownAs(said, state.params.layout.size, tools);
  if ('result' in shown) return isAlike ? fault('other-bits') : shown;
  const length = Math.sqrt(energyOf(state.params.values, trained.params));
  const apartPpm = apart(delta, trained.moments, shown, length);
  if (isAlike) return { ...fault('other-bits'), apartPpm };
  if (!isPackedFrom(row, shown.delta, payload, tools))
    return { ...fault('other-payload'), apartPpm };
  if (apartPpm > state.spec.rerun.bandPpm) return { ...fault('other-steps'), apartPpm };
  return { result: 'near', apartPpm };
}

/** Whether a payload is what comes of packing this delta the way it is packed. */
function isPackedFrom(
  { state, manifest }: Made,
  delta: Float64Array,
  payload: Uint8Array,
  { evidence, sha256 }: CheckTools,
): boolean {
  const { run, round, spec, params } = state;
  const packer = createPacker({
    run,
    layout: params.layout,
    sha256,
    ratio: spec.training.topk,
    eventBudget: spec.training.eventBudget,
  });
  const assignment = assignmentOf(known(termsOf(state, evidence)));
  const place = { round, worker: manifest.worker, assignment };
  const again = packer.packLike(payload, delta, place);
  return again !== undefined && toHex(sha256(again)) === manifest.hash;
}

type Numbers = Float32Array | Float64Array;

/** Sum of squared differences. */
function energyOf(a: Numbers, b: Numbers): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return sum;
}

/** The largest of the distances, each by its own length, in millionths, rounded up: of the delta by that of the step, of vectors by their own. */
function apart(
  whole: Float64Array,
  moments: readonly Float32Array[],
  shown: PrivateState,
  length: number,
): number {
  const isLike = moments.every((part, i) => part.length === shown.moments[i]?.length);
  if (moments.length !== shown.moments.length || !isLike) return MOST_APART;
  const shares = [Math.sqrt(energyOf(whole, shown.delta)) / length];
  for (const [i, part] of moments.entries()) {
    const own = Math.sqrt(energyOf(part, new Float32Array(part.length)));
    shares.push(Math.sqrt(energyOf(part, shown.moments[i]!)) / own);
  }
  const ppm = shares.map((share) => (Number.isNaN(share) ? 0 : Math.ceil(1e6 * share)));
  return Math.min(MOST_APART, Math.max(...ppm));
}

/** Further apart is as good as nowhere. */
const MOST_APART = 1_000_000_000;
