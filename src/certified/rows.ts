/** Checks the rows of an outcome: each accepted manifest must be valid, each rejected one invalid for the reason given. */
import type { Submission } from '../network/wire/certified-events.ts';
import type { Contribution, Rejection } from '../run/contribution.ts';
import { lateOf } from '../run/ledger.ts';
import type { AcceptedRow, RejectedRow } from '../run/outcome.ts';
import type { Signed } from '../run/vote.ts';
import { CHUNK_LENGTH, type PartialVector } from '../tensor/partial-vector.ts';
import type { Certified, Draft } from './chain-state.ts';
import {
  type Evidence,
  found,
  invalid,
  lacking,
  type ProtocolMessage,
  type Verdict,
} from './evidence.ts';
import { assignmentOf, judgeManifest, judgeSubmission, type Terms } from './submissions.ts';

/** An accepted row with what it brings. */
export interface Row {
  readonly late: boolean;
  readonly contribution: Contribution;
}

/** What the contributions of the round to come are held against, or, when late, of the round before; null without one. */
export function termsOf(state: Certified, late: boolean): Terms | null {
  const { spec, run, before, modelRoot, params } = state;
  if (!late) return { ...state, base: modelRoot, layout: params.layout };
  return before && { spec, run, ...before, layout: params.layout };
}

/** All accepted rows, opened. Whoever lacks some is told all of what it lacks at once. */
export function acceptedRows(
  state: Certified,
  { accepted }: Draft,
  evidence: Evidence,
): Verdict<readonly Row[]> {
  const verdicts = accepted.map((row) => acceptedRow(state, row, evidence));
  const lacks = verdicts.flatMap((verdict) =>
    !verdict.ok && 'missing' in verdict ? verdict.missing : [],
  );
  const wrong = verdicts.find((verdict) => !verdict.ok && 'invalid' in verdict);
  if (wrong !== undefined && !wrong.ok) return wrong;
  if (lacks.length > 0) return lacking(...lacks);
  return found(verdicts.flatMap((verdict) => (verdict.ok ? [verdict.value] : [])));
}

/** The rows with a mark on those whose payload brings no value but zeros. */
export const markEmpty = (
  accepted: readonly AcceptedRow[],
  rows: readonly Row[],
): readonly AcceptedRow[] =>
  accepted.map(({ empty: _, ...row }, i) => ({
    ...row,
    ...(isZero(rows[i]!.contribution.delta) && { empty: true }),
  }));

/** Whether a delta has no value but zeros. */
function isZero(delta: PartialVector): boolean {
  const values = new Float64Array(CHUNK_LENGTH);
  return delta.chunks.every((_, position) => {
    delta.addChunk(position, 1, values, 0);
    return values.every((value) => value === 0);
  });
}

function acceptedRow(
  state: Certified,
  { index, late, manifest: id }: AcceptedRow,
  evidence: Evidence,
): Verdict<Row> {
  const key = state.ledger.members[index]?.key;
  const wrong = (reason: string, detail: string) =>
    invalid(reason, 'accepted', `manifest ${id} of ${key ?? 'nobody'}: ${detail}`);
  const terms = termsOf(state, late);
  if (key === undefined) return wrong('not-in-roster', `no member ${index} of the roster`);
  if (terms === null || (late && !lateOf(state.ledger).includes(key))) {
    return wrong('not-late', 'nothing of the round before may be listed for it');
  }
  const noun = evidence.noun(id);
  if (noun === undefined) return lacking({ what: 'event', id });
  if (!isSubmission(noun)) return wrong('other-event', `it is of type ${noun.type}`);
  const { manifest } = noun;
  if (manifest.worker !== key) return wrong('other-author', `it is by ${manifest.worker}`);
  const claim = judgeManifest(manifest, terms, assignmentOf(terms));
  if (!claim.ok) return wrong(claim.rejection.reason, claim.rejection.detail);
  const payload = evidence.payload(manifest);
  if (payload === undefined) return lacking({ what: 'payload', id });
  const judged = judgeSubmission(manifest, payload, terms);
  if (!judged.ok) return wrong(judged.rejection.reason, judged.rejection.detail);
  return found({ late, contribution: judged.value });
}

const isSubmission = (noun: ProtocolMessage): noun is Signed<Submission> =>
  noun.type === 'manifest';

/** Whether each rejected row is one, for its reason. */
export function checkRejected(
  state: Certified,
  { rejected, accepted }: Draft,
  evidence: Evidence,
): Verdict<null> {
  const listed = new Set(accepted.map(({ manifest }) => manifest));
  for (const row of rejected) {
    const { index, manifest: id, reason } = row;
    if (listed.has(id)) return invalid('both-ways', 'rejected', `${id} is accepted too`);
    const why = whyRejected(state, row, evidence);
    if (!why.ok) return why;
    if (why.value?.reason === reason) continue;
    const truth = why.value?.reason ?? 'nothing is wrong with it';
    return invalid('untrue-reason', 'rejected', `${id} of ${index} is not ${reason}: ${truth}`);
  }
  return found(null);
}

function whyRejected(
  state: Certified,
  { index, manifest: id }: RejectedRow,
  evidence: Evidence,
): Verdict<Rejection | null> {
  const noun = evidence.noun(id);
  if (noun === undefined) return lacking({ what: 'event', id });
  if (noun.key !== state.ledger.members[index]?.key) {
    return invalid('other-author', 'rejected', `${id} is by ${noun.key}`);
  }
  if (noun.type === 'unreadable') {
    return found({ reason: noun.reason, worker: noun.key, detail: 'its event cannot be read' });
  }
  if (!isSubmission(noun)) return invalid('other-event', 'rejected', `${id} is a ${noun.type}`);
  const terms = termsOf(state, false)!;
  const claim = judgeManifest(noun.manifest, terms, assignmentOf(terms));
  if (!claim.ok) return found(claim.rejection);
  const payload = evidence.payload(noun.manifest);
  if (payload === undefined) return lacking({ what: 'payload', id });
  const judged = judgeSubmission(noun.manifest, payload, terms);
  return found(judged.ok ? null : judged.rejection);
}
