/** Decides which contributions count: round parameters they must match; judging of manifests, payloads and outcomes. */
import { sha256 } from '../../base/hash.ts';
import { type Stakes, weigh } from '../../consensus/committee/committee.ts';
import { drawnOf } from '../../consensus/committee/draw.ts';
import { liveOf } from '../../consensus/round/membership.ts';
import { entitled, tierOfMember, withoutGuests } from '../../consensus/round/seats.ts';
import { accept, type Judged, refusal } from '../../network/wire/judged.ts';
import { judgePayload, type Manifest, openContribution } from '../../network/wire/manifests.ts';
import { createPacker } from '../../network/wire/packer.ts';
import type { ChunkAssignment, Contribution, Rejection } from '../../run/contribution.ts';
import { seatNames } from '../../run/founder-seats.ts';
import { type EventId, roundName, roundNumber, type WorkerId } from '../../run/ids.ts';
import { type Ledger, lateOf } from '../../run/ledger.ts';
import type { AcceptedContribution, RejectedContribution } from '../../run/outcome.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Signed } from '../../run/vote.ts';
import { fullSize, type Layout } from '../../tensor/params.ts';
import { CHUNK_LENGTH, type PartialVector } from '../../tensor/partial-vector.ts';
import { assignChunks } from '../../worker/chunk-assignment.ts';
import type { ProtocolMessage, Submission } from '../wire/certified-events.ts';
import {
  type Certified,
  type Draft,
  type FinishedRound,
  membershipOf,
  type Situation,
  type StakeEvidence,
  stakesOf,
} from './chain.ts';
import { type Evidence, invalid, lacking, type Ruling, valid } from './evidence.ts';
import { assignGroups } from './groups.ts';
import { sliceCountOf } from './slices.ts';

/** What a contribution to a round is checked against. */
export interface RoundParameters extends Situation, Pick<FinishedRound, 'base' | 'sliceRoots'> {
  readonly layout: Layout;
  /** Stakes of that round; null in a run without stakes. */
  readonly stakes: Stakes;
}

/** Returns the parameters of the round that follows a state, or why they are not known yet. */
export function roundParametersOf(
  state: Certified,
  evidence: StakeEvidence,
): Ruling<RoundParameters> {
  const stakes = stakesOf(state.ledger, evidence);
  if (!stakes.ok) return stakes;
  const { modelRoot: base, params } = state;
  return valid({ ...state, base, layout: params.layout, stakes: stakes.value });
}

/** Returns the parameters of the previous round, for late contributions; null in round 0. */
export function previousRoundParametersOf(
  state: Certified,
  evidence: StakeEvidence,
): Ruling<RoundParameters | null> {
  const { spec, run, before, params } = state;
  if (before === null) return valid(null);
  const stakes = stakesOf(before.ledger, evidence);
  if (!stakes.ok) return stakes;
  return valid({ spec, run, ...before, layout: params.layout, stakes: stakes.value });
}

/** Returns the value of a ruling on stakes. Throws a TypeError if they are missing: no round opens then. */
export function unwrapRuling<T>(verdict: Ruling<T>): T {
  if (verdict.ok) return verdict.value;
  throw new TypeError('the stakes of an open round are missing');
}

/** Returns the keys whose contributions have weight: all of them in a run without stakes. */
export const weighingOf = (
  { committee: rules }: RunSpec,
  stakes: Stakes,
  eligible: readonly WorkerId[],
): readonly WorkerId[] => weigh({ eligible, stakes, rules }).map(({ key }) => key);

/**
 * Returns the owners of chunks, which are the keys that may have a seat and are no guests, and the other senders, such
 * as newcomers. In a run with stakes, keys without enough stake send nothing.
 */
function sendersOf({ spec, run, ledger, stakes }: Omit<RoundParameters, 'base' | 'parent'>) {
  const rules = membershipOf(spec, run);
  const drawn = drawnOf(rules, ledger);
  const isDrawn = (key: WorkerId) => drawn?.has(key) !== false;
  const able = entitled(ledger, liveOf(rules, ledger)).filter(isDrawn);
  const owners = new Set(withoutGuests(rules, ledger, weighingOf(spec, stakes, able)));
  const all = weighingOf(spec, stakes, ledger.members.map(({ key }) => key).filter(isDrawn));
  return { owners: [...owners], beside: all.filter((key) => !owners.has(key)) };
}

/** Returns which chunks each worker sends in a round. Throws if the ledger has no entropy. */
export function assignmentOf(
  roundParameters: Omit<RoundParameters, 'base' | 'parent'>,
): ChunkAssignment {
  const { spec, run, round, ledger, layout, stakes } = roundParameters;
  const size = fullSize(layout);
  const before = divided.get(ledger);
  if (before?.size === size && before.stakes === stakes) return before.assignment;
  const { owners, fragments } = spec.training;
  const { entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const { owners: roster, beside } = sendersOf(roundParameters);
  const tiers = new Map(ledger.members.map((member) => [member.key, tierOfMember(member)]));
  const all = assignChunks({
    run,
    round,
    base: entropy,
    owners,
    fragments,
    roster,
    beside,
    names: seatNames(ledger),
    size,
    slices: layout.slices?.map((slice, i) => ({
      ...slice,
      beside: beside.filter((key) => sliceCountOf(spec, tiers.get(key)!) > i),
    })),
  });
  const assignment = assignGroups(all, spec, ledger);
  divided.set(ledger, { size, stakes, assignment });
  return assignment;
}

/** Assignments by ledger: computing one hashes every key and chunk, and each contribution of a round needs it. */
const divided = new WeakMap<
  Ledger,
  { readonly size: number; readonly stakes: Stakes; readonly assignment: ChunkAssignment }
>();

export interface CountedContribution {
  readonly late: boolean;
  readonly contribution: Contribution;
}

/** Decodes all accepted contributions. If evidence is missing, the ruling lists all of it at once. */
export function openAccepted(
  state: Certified,
  { accepted }: Draft,
  evidence: Evidence,
): Ruling<readonly CountedContribution[]> {
  const verdicts = accepted.map((row) => openAcceptedOne(state, row, evidence));
  const lacks = verdicts.flatMap((verdict) =>
    !verdict.ok && 'missing' in verdict ? verdict.missing : [],
  );
  const wrong = verdicts.find((verdict) => !verdict.ok && 'invalid' in verdict);
  if (wrong !== undefined && !wrong.ok) return wrong;
  if (lacks.length > 0) return lacking(...lacks);
  return valid(verdicts.flatMap((verdict) => (verdict.ok ? [verdict.value] : [])));
}

/** Marks the contributions whose payload has only zeros. */
export const markEmpty = (
  accepted: readonly AcceptedContribution[],
  rows: readonly CountedContribution[],
): readonly AcceptedContribution[] =>
  accepted.map(({ empty: _, ...row }, i) => ({
    ...row,
    ...(isZero(rows[i]!.contribution.delta) && { empty: true }),
  }));

function isZero(delta: PartialVector): boolean {
  const values = new Float64Array(CHUNK_LENGTH);
  return delta.chunks.every((_, position) => {
    delta.addChunk(position, 1, values, 0);
    return values.every((value) => value === 0);
  });
}

function openAcceptedOne(
  state: Certified,
  { index, late, manifest: id }: AcceptedContribution,
  evidence: Evidence,
): Ruling<CountedContribution> {
  const key = state.ledger.members[index]?.key;
  const wrong = (reason: string, detail: string) =>
    invalid(reason, 'accepted', `manifest ${id} of ${key ?? 'no member'}: ${detail}`);
  if (key === undefined) return wrong('not-in-roster', `the roster has no member ${index}`);
  const of = late ? previousRoundParametersOf(state, evidence) : roundParametersOf(state, evidence);
  if (!of.ok) return of;
  const roundParameters = of.value;
  if (roundParameters === null || (late && !lateOf(state.ledger).includes(key))) {
    return wrong('not-late', 'no contribution to the previous round may be listed for this key');
  }
  const message = evidence.message(id);
  if (message === undefined) return lacking({ what: 'event', id });
  if (!isSubmission(message)) return wrong('other-event', `the event is a ${message.type}`);
  const { manifest } = message;
  if (manifest.worker !== key) return wrong('other-author', `its author is ${manifest.worker}`);
  const claim = judgeManifest(manifest, roundParameters, assignmentOf(roundParameters));
  if (!claim.ok) return wrong(claim.rejection.reason, claim.rejection.detail);
  const payload = evidence.payload(manifest);
  if (payload === undefined) return lacking({ what: 'payload', id });
  const judged = judgeSubmission(manifest, payload, roundParameters);
  if (!judged.ok) return wrong(judged.rejection.reason, judged.rejection.detail);
  return valid({ late, contribution: judged.value });
}

const isSubmission = (message: ProtocolMessage): message is Signed<Submission> =>
  message.type === 'manifest';

/** Checks that each rejected contribution is invalid for the stated reason. */
export function checkRejected(
  state: Certified,
  { rejected, accepted }: Draft,
  evidence: Evidence,
): Ruling<null> {
  const listed = new Set(accepted.map(({ manifest }) => manifest));
  for (const row of rejected) {
    const { index, manifest: id, reason } = row;
    if (listed.has(id)) return invalid('both-ways', 'rejected', `${id} is accepted too`);
    const why = whyRejected(state, row, evidence);
    if (!why.ok) return why;
    if (why.value?.reason === reason) continue;
    const truth = why.value?.reason ?? 'it is valid';
    return invalid('untrue-reason', 'rejected', `${id} of ${index} is not ${reason}: ${truth}`);
  }
  return valid(null);
}

function whyRejected(
  state: Certified,
  { index, manifest: id }: RejectedContribution,
  evidence: Evidence,
): Ruling<Rejection | null> {
  const message = evidence.message(id);
  if (message === undefined) return lacking({ what: 'event', id });
  if (message.key !== state.ledger.members[index]?.key) {
    return invalid('other-author', 'rejected', `${id} is by ${message.key}`);
  }
  if (message.type === 'unreadable') {
    return valid({
      reason: message.reason,
      worker: message.key,
      detail: 'its event cannot be read',
    });
  }
  if (!isSubmission(message))
    return invalid('other-event', 'rejected', `${id} is a ${message.type}`);
  const of = roundParametersOf(state, evidence);
  if (!of.ok) return of;
  const roundParameters = of.value;
  const claim = judgeManifest(message.manifest, roundParameters, assignmentOf(roundParameters));
  if (!claim.ok) return valid(claim.rejection);
  const payload = evidence.payload(message.manifest);
  if (payload === undefined) return lacking({ what: 'payload', id });
  const judged = judgeSubmission(message.manifest, payload, roundParameters);
  return valid(judged.ok ? null : judged.rejection);
}

/** Checks a manifest against the round before its payload is fetched; returns the manifest, or why it cannot count. */
export function judgeManifest(
  manifest: Manifest,
  roundParameters: RoundParameters,
  assignment: ChunkAssignment,
): Judged<Manifest> {
  const { spec, run, round, parent, base, ledger } = roundParameters;
  const { worker } = manifest;
  if (manifest.run !== run) return refusal(worker, 'other-run', `run ${manifest.run}`);
  if (!ledger.members.some(({ key }) => key === worker)) {
    return refusal(worker, 'not-a-member', `not in the roster of ${roundName(round)}`);
  }
  const drawn = drawnOf({ run, contributors: spec.contributors }, ledger);
  if (drawn?.has(worker) === false) {
    return refusal(worker, 'not-drawn', `not drawn for ${roundName(round)}`);
  }
  if (manifest.round !== round) {
    return refusal(
      worker,
      'wrong-round',
      `${roundName(manifest.round)}, not ${roundNumber(round)}`,
    );
  }
  if (manifest.parent === undefined) {
    return refusal(worker, 'uncommitted', 'it names no previous outcome');
  }
  if (manifest.parent !== parent) {
    return refusal(worker, 'base-mismatch', `follows ${manifest.parent}, not ${parent}`);
  }
  if (manifest.base !== base) {
    return refusal(worker, 'base-mismatch', `started from ${manifest.base}, not ${base}`);
  }
  const other = refuseSlices(manifest, roundParameters);
  if (other) return other;
  if (manifest.bytes > spec.limits.payloadBytes) {
    const limit = spec.limits.payloadBytes;
    return refusal(worker, 'too-large', `a payload of ${manifest.bytes} bytes, over ${limit}`);
  }
  if (manifest.roster !== assignment.digest) {
    const ours = assignment.digest ?? 'no roster';
    return refusal(
      worker,
      'other-roster',
      `made for ${manifest.roster ?? 'none'}, not for ${ours}`,
    );
  }
  return accept(manifest);
}

/**
 * Returns the refusal of a manifest whose slice roots are not the certified ones of its author's tier; undefined if
 * they match.
 */
function refuseSlices(
  { worker, features }: Manifest,
  { spec, ledger, sliceRoots }: RoundParameters,
): Judged<never> | undefined {
  if (sliceRoots === undefined) return undefined;
  const claimed = features?.widths?.rings ?? [];
  const tier = tierOfMember(ledger.members.find(({ key }) => key === worker)!);
  const expected = sliceCountOf(spec, tier);
  if (claimed.length !== expected) {
    return refusal(
      worker,
      'other-tier',
      `names ${claimed.length} slices; tier ${tier} of its author has ${expected}`,
    );
  }
  const at = claimed.findIndex((digest, i) => digest !== sliceRoots[i]);
  if (at < 0) return undefined;
  return refusal(
    worker,
    'base-mismatch',
    `slice ${at} started from ${claimed[at]}, not ${sliceRoots[at]}`,
  );
}

/** Judgments of one round: a contribution is judged on arrival, in proposals and when it is applied. */
type Judgments = Map<
  string,
  { readonly payload: Uint8Array; readonly judged: Judged<Contribution> }
>;
const judgments = new WeakMap<Ledger, Judgments>();

/** Returns the contribution in a payload, or why it does not count. Caches the result per round. */
export function judgeSubmission(
  manifest: Manifest,
  payload: Uint8Array,
  roundParameters: RoundParameters,
  hash = sha256,
): Judged<Contribution> {
  const { ledger, base, parent, layout } = roundParameters;
  const cache = judgments.get(ledger) ?? (new Map() as Judgments);
  judgments.set(ledger, cache);
  const key = [manifest.eventId, base, parent, layout.size].join();
  const before = cache.get(key);
  if (before?.payload === payload) return before.judged;
  cache.set(key, { payload, judged: judgePayloadOf(manifest, payload, roundParameters, hash) });
  return cache.get(key)!.judged;
}

function judgePayloadOf(
  manifest: Manifest,
  payload: Uint8Array,
  roundParameters: RoundParameters,
  hash: typeof sha256,
): Judged<Contribution> {
  const assignment = assignmentOf(roundParameters);
  const judged = judgeManifest(manifest, roundParameters, assignment);
  if (!judged.ok) return judged;
  const isChecked = payload === manifest.payload; // with the manifest that contains it
  const untrue = isChecked ? undefined : judgePayload(manifest, payload, hash);
  if (untrue) return { ok: false, rejection: untrue };
  const { packing, eventBudget } = roundParameters.spec.training;
  const packer = createPacker({
    run: roundParameters.run,
    layout: roundParameters.layout,
    packing,
    eventBudget,
    sha256: hash,
  });
  return openContribution(manifest, payload, packer, assignment);
}

/**
 * Returns a valid contribution to this round, or a late one to the previous round; undefined if it is missing or
 * invalid.
 */
export function contributionOf(
  id: EventId,
  state: Certified,
  evidence: Evidence,
): Contribution | undefined {
  const message = evidence.message(id);
  if (message?.type !== 'manifest') return undefined;
  const { manifest } = message;
  const payload = evidence.payload(manifest);
  const of =
    manifest.round === state.round
      ? roundParametersOf(state, evidence)
      : previousRoundParametersOf(state, evidence);
  if (payload === undefined || !of.ok || of.value === null) return undefined;
  const judged = judgeSubmission(manifest, payload, of.value);
  return judged.ok ? judged.value : undefined;
}
