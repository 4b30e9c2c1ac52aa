/** Judges one contribution to a certified round, manifest and payload, against the round's terms; every worker and replay finds the same. */
import { sha256 } from '../base/hash.ts';
import { liveOf } from '../consensus/round/membership.ts';
import { accept, codecReason, type Judged, refusal } from '../network/wire/judged.ts';
import { judgePayload, type Manifest } from '../network/wire/manifests.ts';
import { createPacker } from '../network/wire/packer.ts';
import type { ChunkAssignment } from '../run/chunk-assignment.ts';
import type { Contribution } from '../run/contribution.ts';
import type { Ledger } from '../run/ledger.ts';
import type { Layout } from '../tensor/params.ts';
import { assignChunks } from '../worker/chunk-assignment.ts';
import { membershipOf, type Situation } from './electorate.ts';

/** A round as its contributions are held against it. */
export interface Terms extends Situation {
  /** Model root it starts from. */
  readonly base: string;
  readonly layout: Layout;
}

/** Who sends what in a round. Throws without the entropy of its ledger. */
export function assignmentOf(terms: Omit<Terms, 'base'>): ChunkAssignment {
  const { spec, run, round, ledger, layout } = terms;
  const known = divided.get(ledger);
  if (known?.size === layout.size) return known.assignment;
  const { owners, fragments } = spec.training;
  const { entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in round ${round}`);
  const roster = liveOf(membershipOf(spec, run), ledger);
  const assignment = assignChunks({
    ...{ run, round, base: entropy, roster, owners, fragments },
    size: layout.size,
  });
  divided.set(ledger, { size: layout.size, assignment });
  return assignment;
}

/** Dividing costs a hash for each key and chunk, and every row of a round asks for the same division. */
const divided = new WeakMap<
  Ledger,
  { readonly size: number; readonly assignment: ChunkAssignment }
>();

/** What a manifest says, held against the round: why it cannot count, before its payload is looked at. */
export function judgeManifest(
  said: Manifest,
  { spec, run, round, parent, base, ledger }: Terms,
  assignment: ChunkAssignment,
): Judged<Manifest> {
  const { worker } = said;
  if (said.run !== run) return refusal(worker, 'other-run', `run ${said.run}`);
  if (!ledger.members.some(({ key }) => key === worker)) {
    return refusal(worker, 'not-a-member', `not in the roster of round ${round}`);
  }
  if (said.round !== round) {
    return refusal(worker, 'wrong-round', `round ${said.round}, not ${round}`);
  }
  if (said.parent === undefined) {
    return refusal(worker, 'uncommitted', 'it does not say which outcome it follows');
  }
  if (said.parent !== parent) {
    return refusal(worker, 'base-mismatch', `follows ${said.parent}, not ${parent}`);
  }
  if (said.base !== base) {
    return refusal(worker, 'base-mismatch', `started from ${said.base}, not ${base}`);
  }
  if (said.bytes > spec.limits.payloadBytes) {
    const limit = spec.limits.payloadBytes;
    return refusal(worker, 'too-large', `a payload of ${said.bytes} bytes, over ${limit}`);
  }
  if (said.roster !== assignment.digest) {
    const ours = assignment.digest ?? 'no roster';
    return refusal(worker, 'other-roster', `made for ${said.roster ?? 'none'}, not for ${ours}`);
  }
  return accept(said);
}

/** A contribution is judged when it comes, when an outcome that lists it is checked and when it is applied: once is enough. */
type Judgments = Map<
  string,
  { readonly payload: Uint8Array; readonly judged: Judged<Contribution> }
>;
const judgments = new WeakMap<Ledger, Judgments>();

/** The contribution inside a payload, or why it does not count; decoded once for each round it is held against. */
export function judgeSubmission(
  said: Manifest,
  payload: Uint8Array,
  terms: Terms,
  hash = sha256,
): Judged<Contribution> {
  const { ledger, base, parent, layout } = terms;
  const known = judgments.get(ledger) ?? (new Map() as Judgments);
  judgments.set(ledger, known);
  const key = [said.eventId, base, parent, layout.size].join();
  const before = known.get(key);
  if (before?.payload === payload) return before.judged;
  const judged = judgePayloadOf(said, payload, terms, hash);
  known.set(key, { payload, judged });
  return judged;
}

function judgePayloadOf(
  said: Manifest,
  payload: Uint8Array,
  terms: Terms,
  hash: typeof sha256,
): Judged<Contribution> {
  const assignment = assignmentOf(terms);
  const judged = judgeManifest(said, terms, assignment);
  if (!judged.ok) return judged;
  const untrue = judgePayload(said, payload, hash);
  if (untrue) return { ok: false, rejection: untrue };
  const { worker, eventId, round, base, examples, steps, createdAt, eventBytes } = said;
  const { packing, eventBudget, topk } = terms.spec.training;
  const packer = createPacker({
    ...{ run: terms.run, layout: terms.layout, packing, eventBudget, ratio: topk },
    ...{ maxContainerBytes: terms.spec.limits.payloadBytes, sha256: hash },
  });
  const opened = packer.open(payload, said.codec, { round, worker, assignment });
  if (!opened.ok) {
    const { code, at, message } = opened.issue;
    return refusal(worker, codecReason(code), `${code} at ${at}: ${message}`);
  }
  return accept({
    ...{ worker, eventId, round, base, examples, steps, createdAt, eventBytes },
    delta: opened.value,
    payloadBytes: payload.length,
  });
}
