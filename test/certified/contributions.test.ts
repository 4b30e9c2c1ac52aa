/** Which contributions count: each check against one changed value. */
import type { Certified } from 'nostrain/certified/parts';
import type { Manifest } from 'nostrain/network';
import type { Ledger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  assignmentOf,
  checkRejected,
  contributionOf,
  judgeManifest,
  markEmpty,
  openAccepted,
  type RoundParameters,
  roundParametersOf,
  unwrapRuling,
} from '../../src/certified/decisions/contributions.ts';
import type { Evidence } from '../../src/certified/decisions/evidence.ts';
import { contribution } from '../support/contributions.ts';
import {
  but,
  codeOf,
  eventfulEvidence,
  eventfulRound,
  eventfulRun,
  keyOf,
} from '../support/eventful-run.ts';
import { tieredSpec } from '../support/tiers.ts';

const other = 'e'.repeat(64);
const found = eventfulEvidence();
const { spec } = eventfulRun();

describe('a manifest', () => {
  const { before, decided } = eventfulRound(1);
  const parameters = unwrapRuling(roundParametersOf(before, found));
  const [row] = decided.outcome.accepted;
  const message = found.message(row!.manifest) as never as { readonly manifest: Manifest };
  const assignment = assignmentOf(parameters);
  const judge = (change: object = {}, of: Partial<RoundParameters> = {}) => {
    const judged = judgeManifest(
      { ...message.manifest, ...change },
      { ...parameters, ...of },
      assignment,
    );
    return judged.ok ? 'accepted' : judged.rejection.reason;
  };

  it.each<[string, object]>([
    ['accepted', {}],
    ['other-run', { run: other }],
    ['not-a-member', { worker: keyOf(9) }],
    ['wrong-round', { round: 2 }],
    ['uncommitted', { parent: undefined }],
    ['base-mismatch', { parent: other }],
    ['base-mismatch', { base: other }],
    ['accepted', { bytes: spec.limits.payloadBytes }],
    ['too-large', { bytes: spec.limits.payloadBytes + 1 }],
    ['other-roster', { roster: other }],
  ])('is %s with %j', (reason, change) => {
    expect(judge(change)).toBe(reason);
  });

  it('is refused of a worker that is not drawn', () => {
    const { members } = before.ledger;
    // a copy: draws are cached by ledger
    const of = () => ({ spec: { ...spec, contributors: 2 }, ledger: { ...before.ledger } });
    const verdicts = members.map(({ key }) => judge({ worker: key }, of()));
    expect(verdicts.filter((each) => each === 'not-drawn')).toHaveLength(members.length - 2);
    expect(verdicts.filter((each) => each === 'accepted')).toHaveLength(2);
  });

  it('names the certified roots of the slices of its author, all of them and in their order', () => {
    const tiers = tieredSpec([0, 1, 2]);
    const rootsIn = ['0', '1', '2'].map((digit) => digit.repeat(64));
    const tierOf = (tier: number) => ({
      ...before.ledger,
      members: before.ledger.members.map((member) => ({
        ...member,
        features: { widths: { tier: member.key === message.manifest.worker ? tier : 0 } },
      })),
    });
    const claim = (tier: number, rings: readonly string[] | undefined) =>
      judge(
        { features: rings && { widths: { rings } } },
        {
          spec: { ...tiers, limits: spec.limits },
          ledger: tierOf(tier) as Ledger,
          sliceRoots: rootsIn,
        },
      );
    expect(rootsIn).toHaveLength(3);
    expect(claim(0, rootsIn)).toBe('accepted');
    expect(claim(1, rootsIn.slice(0, 2))).toBe('accepted');
    expect(claim(1, rootsIn)).toBe('other-tier');
    expect(claim(0, rootsIn.slice(0, 2))).toBe('other-tier');
    expect(claim(0, undefined)).toBe('other-tier');
    expect(claim(0, [...rootsIn].reverse())).toBe('base-mismatch');
    for (const i of [0, 1, 2])
      expect(
        claim(
          0,
          rootsIn.map((each, j) => (i === j ? other : each)),
        ),
      ).toBe('base-mismatch');
    expect(judge({ features: {} })).toBe('accepted');
  });
});

describe('the contributions of an outcome', () => {
  const { before, decided } = eventfulRound(2);
  const { outcome } = decided;
  const late = outcome.accepted.find((row) => row.late)!;
  const onTime = outcome.accepted.find((row) => !row.late)!;
  const manifestOf = (id: string) =>
    (found.message(id) as never as { readonly manifest: Manifest }).manifest;
  const open = (change: object, evidence: Evidence = found) =>
    codeOf(openAccepted(before, { ...outcome, accepted: [{ ...onTime, ...change }] }, evidence));

  it('are opened by their events and payloads, which are all named if they are missing', () => {
    const opened = unwrapRuling(openAccepted(before, outcome, found));
    expect(opened.map((each) => each.late)).toEqual(outcome.accepted.map((row) => row.late));
    const lost = openAccepted(before, outcome, but({ payload: () => undefined }));
    const payloads = outcome.accepted.map(({ manifest: id }) => ({ what: 'payload', id }));
    expect(lost).toEqual({ ok: false, missing: payloads });
    const gone = openAccepted(before, outcome, but({ message: () => undefined }));
    const events = outcome.accepted.map(({ manifest: id }) => ({ what: 'event', id }));
    expect(gone).toEqual({ ok: false, missing: events });
  });

  it.each<[string, object]>([
    ['valid', {}],
    ['not-in-roster', { index: 99 }],
    ['not-late', { late: true }],
    ['other-author', { index: onTime.index + 1 }],
    ['other-event', { manifest: decided.certificate.commits[0]!.id }],
    ['wrong-round', { index: late.index, manifest: late.manifest }],
  ])('are %s with %j', (code, change) => {
    expect(open(change)).toBe(code);
  });

  it('are invalid although other evidence is missing', () => {
    const evidence = but({ payload: () => undefined });
    const accepted = [onTime, { ...onTime, index: 99 }];
    expect(codeOf(openAccepted(before, { ...outcome, accepted }, evidence))).toBe('not-in-roster');
    expect(open({}, but({ payload: () => Uint8Array.of(1) }))).not.toBe('valid');
  });

  it('are found by id: of this round, and of the previous one', () => {
    const find = (id: string, evidence: Evidence = found, state = before) =>
      contributionOf(id, state, evidence)?.worker;
    expect(find(onTime.manifest)).toBe(manifestOf(onTime.manifest).worker);
    expect(find(late.manifest)).toBe(keyOf(4));
    expect(find(other)).toBeUndefined();
    expect(find(decided.certificate.commits[0]!.id)).toBeUndefined();
    expect(find(onTime.manifest, but({ payload: () => undefined }))).toBeUndefined();
    expect(find(onTime.manifest, found, eventfulRound(0).before)).toBeUndefined();
    expect(find(onTime.manifest, found, eventfulRound(4).before)).toBeUndefined();
  });

  it('are marked if all of their values are zero', () => {
    const rows = [
      [0, 0],
      [0, 1],
      [-0, 0],
      [1, 0],
    ].map((values, i) => ({
      late: false,
      contribution: contribution(`${i}`, values),
    }));
    const accepted = rows.map((_, index) => ({ index, late: false, manifest: '', empty: true }));
    const marked = markEmpty(accepted as never, rows);
    expect(marked.map((row) => 'empty' in row && row.empty)).toEqual([true, false, true, false]);
    expect(marked[1]).toEqual({ index: 1, late: false, manifest: '' });
  });

  it('are rejected for their true reason only', () => {
    const step = eventfulRound(4);
    const { rejected, accepted } = step.decided.outcome;
    const [row] = rejected;
    const check = (change: object, evidence: Evidence = found, state: Certified = step.before) =>
      codeOf(
        checkRejected(
          state,
          { ...step.decided.outcome, accepted, rejected: [{ ...row!, ...change }] },
          evidence,
        ),
      );
    expect(check({})).toBe('valid');
    expect(check({ reason: 'too-large' })).toBe('untrue-reason');
    expect(check({ manifest: accepted[0]!.manifest })).toBe('both-ways');
    expect(check({ index: 0 })).toBe('other-author');
    expect(check({ index: 99 })).toBe('other-author');
    expect(check({}, but({ message: () => undefined }))).toBe('missing');
    const vote = step.decided.certificate.commits[0]!;
    const index = step.before.ledger.members.findIndex(({ key }) => key === vote.key);
    expect(check({ index, manifest: vote.id })).toBe('other-event');
    const valid = {
      ...step.decided.outcome,
      accepted: accepted.slice(1),
      rejected: [{ ...row!, ...accepted[0] }],
    };
    expect(codeOf(checkRejected(step.before, valid, found))).toBe('untrue-reason');
    const lost = but({ payload: () => undefined });
    expect(checkRejected(step.before, valid, lost)).toEqual({
      ok: false,
      missing: [{ what: 'payload', id: accepted[0]!.manifest }],
    });
    const unreadable = {
      type: 'unreadable',
      id: row!.manifest,
      reason: 'malformed',
      key: keyOf(5),
    };
    const garbled = but({ message: () => unreadable as never });
    expect(check({ reason: 'malformed' }, garbled)).toBe('valid');
    expect(check({}, garbled)).toBe('untrue-reason');
  });
});
