/**
 * Late policy `defer`: which late contributions an outcome may and must list, and what happens to one that no outcome
 * lists.
 */

import {
  type Certified,
  gather,
  listVotes,
  openAccepted,
  opinionOf,
} from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import type { EventId, Outcome } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { owedIn } from '../../src/certified/rounds/compose.ts';
import { carryOver } from '../../src/certified/state.ts';
import type { AcceptedContribution } from '../../src/run/outcome.ts';
import type { Sent } from '../../src/worker/state.ts';
import {
  certifiedSpec,
  type GeneratedRun,
  generateRun,
  type Round,
  signerOf,
} from '../support/certified-run.ts';
import { dense } from '../support/vectors.ts';

const deferring = certifiedSpec({ late: 'defer' });
const keyOf = (number: number) => signerOf(number).publicKey;
const playedOut = (rounds: readonly Round[]) => {
  const run = generateRun(rounds, deferring);
  return { run, state: run.state, events: gather(run.events, run) };
};

/** The manifest of a worker for a round. */
function manifestOf({ events }: GeneratedRun, number: number, round: number): EventId {
  const own = events.filter(({ kind, pubkey }) => kind === 7810 && pubkey === keyOf(number));
  return own.find(({ content }) => content.includes(`"round":${round},`))!.id;
}

const indexOf = ({ ledger }: Certified, number: number): number =>
  ledger.members.findIndex(({ key }) => key === keyOf(number));

/** The parts of an outcome that matter in these tests. */
function outcomeWith(state: Certified, more: Partial<Outcome>): Outcome {
  const zeros = '0'.repeat(64);
  return {
    ...{ run: state.run, round: state.round, parent: state.parent, base: state.modelRoot },
    ...{ result: 'final', time: 0, proposer: keyOf(1), reveal: '', ballots: [], accepted: [] },
    ...{ rejected: [], votes: null, joins: [], leaves: [], faults: [], features: {} },
    ...{ rowSize: 0, modelRoot: zeros, ledgerRoot: zeros, ...more },
  };
}

describe('a contribution that was left out although most members had it', () => {
  const { run, state, events } = playedOut([{}, { ignored: [2] }]);
  const commits = events.commitsAfter(state.before!.parent);
  const votes = listVotes(state.before!.ledger, commits[0]!, commits);
  const late = [{ worker: keyOf(2), manifest: manifestOf(run, 2, 1) }];
  const row: AcceptedContribution = {
    index: indexOf(state, 2),
    late: true,
    manifest: late[0]!.manifest,
  };

  it('must be listed by the next outcome: a proposer that drops it twice gets no vote', () => {
    const owed = owedIn(state, outcomeWith(state, { votes }), late, events);
    expect(owed).toEqual([keyOf(2)]);
    const sight = { available: [], owed, hasStakes: true, nowMs: 0 };
    expect(opinionOf(state, outcomeWith(state, { votes }), sight).acceptable).toBe(false);
    const good = outcomeWith(state, { votes, accepted: [row] });
    expect(opinionOf(state, good, sight).acceptable).toBe(true);
    const empty = outcomeWith(state, { votes, result: 'void' });
    expect(opinionOf(state, empty, sight).acceptable).toBe(true);
  });

  it('need not be listed on the word of as few voters as may be hostile, nor if it is missing', () => {
    const other = [{ worker: keyOf(1), manifest: manifestOf(run, 1, 1) }];
    expect(owedIn(state, outcomeWith(state, { votes }), other, events)).toEqual([]);
    expect(owedIn(state, outcomeWith(state, { votes }), [], events)).toEqual([]);
    const few = outcomeWith(state, { votes: { ...votes, rows: votes.rows.slice(0, 1) } });
    expect(owedIn(state, few, late, events)).toEqual([]);
  });

  it('counts in the next outcome, flagged late, and in no other way', () => {
    const judge = (accepted: readonly AcceptedContribution[], at = state) =>
      openAccepted(at, outcomeWith(at, { accepted }), events);
    expect(judge([row])).toMatchObject({ ok: true });
    expect(judge([{ ...row, late: false }])).toMatchObject({ invalid: { code: 'wrong-round' } });
    const listed = { ...row, index: indexOf(state, 1), manifest: manifestOf(run, 1, 1) };
    expect(judge([listed])).toMatchObject({ invalid: { code: 'not-late' } });
    const later = playedOut([{}, { ignored: [2] }, {}]);
    expect(
      openAccepted(later.state, outcomeWith(later.state, { accepted: [row] }), later.events),
    ).toMatchObject({ invalid: { code: 'not-late' } });
    const twice = playedOut([{}, { absent: [4] }, { late: [4] }, { absent: [4] }]);
    const old = {
      index: indexOf(twice.state, 4),
      late: true,
      manifest: manifestOf(twice.run, 4, 1),
    };
    expect(
      openAccepted(twice.state, outcomeWith(twice.state, { accepted: [old] }), twice.events),
    ).toMatchObject({ invalid: { code: 'wrong-round' } });
  });
});

describe('what a worker carries over', () => {
  const { state } = playedOut([{}, {}]);
  const size = state.params.layout.size;
  const filled = (value: number) => new Float64Array(size).fill(value);
  const [mine, before] = ['a', 'b'].map((digit) => digit.repeat(64)) as [EventId, EventId];
  const sentAs = (id: EventId): Sent => ({
    ...{ event: { id } as SignedEvent, payload: undefined, roster: [], trainingLoss: 1 },
    ...{ payloadBytes: 1, eventBytes: 1, secondsTraining: 1, residualShare: 0 },
  });
  const wire = { me: keyOf(1), open: () => dense(filled(100)) };
  const own = { sent: sentAs(mine), unpacked: filled(11), residual: filled(1), pending: undefined };
  const index = indexOf(state, 1);
  const carry = (
    more: Partial<Parameters<typeof carryOver>[0]>,
    outcome: Partial<Outcome>,
    at = state,
    taken?: Parameters<typeof carryOver>[4],
  ) => {
    const means = { wire, rule: 'feedback', evidence: { stakes: () => undefined } } as const;
    const left = carryOver({ ...own, ...more }, at, outcomeWith(at, outcome), means, taken);
    return {
      residual: left.residual[0],
      pending: left.pending?.event.id,
    };
  };
  const listed = { accepted: [{ index, late: false, manifest: mine }] };
  const refused = { rejected: [{ index, manifest: mine, reason: 'not-finite' }] };

  it('listed or rejected, it leaves the residual; unlisted, it stays out for one more outcome', () => {
    expect(carry({}, listed)).toEqual({ residual: 1, pending: undefined });
    expect(carry({}, refused)).toEqual({ residual: 1, pending: undefined });
    expect(carry({}, {})).toEqual({ residual: 1, pending: mine });
    const discarding = { ...state, spec: certifiedSpec() };
    expect(carry({}, {}, discarding)).toEqual({ residual: 11, pending: undefined });
  });

  it('unlisted, it is dropped with screening, unless the round is void or it was not sent', () => {
    const screening = { ...state, spec: certifiedSpec({ screening: true }) };
    expect(carry({}, {}, screening)).toEqual({ residual: 1, pending: undefined });
    expect(carry({}, { result: 'void' }, screening).residual).toBe(11);
    expect(carry({ sent: undefined }, {}, screening).residual).toBe(11);
    const both = { ...state, spec: certifiedSpec({ screening: true, late: 'defer' }) };
    expect(carry({}, {}, both)).toEqual({ residual: 1, pending: mine });
    expect(carry({ pending: sentAs(before) }, listed, both).residual).toBe(1);
    expect(carry({ pending: sentAs(before) }, { result: 'void' }, both).residual).toBe(101);
  });

  it('listed but left out by the rule, it returns minus what the step moved instead', () => {
    const mean = filled(4);
    const taken = { mean, moved: Uint32Array.of(0), unused: new Set([mine]), rate: 1 };
    expect(carry({}, listed, state, taken).residual).toBe(7);
    expect(carry({}, listed, state, { ...taken, unused: new Set() }).residual).toBe(1);
    // too few for the rule: no contribution was taken
    const still = { ...taken, moved: new Uint32Array(), mean: filled(0) };
    expect(carry({}, listed, state, still).residual).toBe(11);
  });

  it('returns if the next outcome does not list it either, in addition to what was sent meanwhile', () => {
    const pending = sentAs(before);
    const late = { index, late: true, manifest: before };
    expect(carry({ pending }, { accepted: [...listed.accepted, late] }).residual).toBe(1);
    expect(carry({ pending }, listed)).toEqual({ residual: 101, pending: undefined });
    expect(carry({ pending }, {})).toEqual({ residual: 101, pending: mine });
    expect(carry({ pending, sent: undefined, unpacked: undefined }, {})).toEqual({
      ...{ residual: 101, pending: undefined },
    });
  });

  it('is not lost if an outcome rejects it in a round that it was not made for', () => {
    const untimely = { rejected: [{ index, manifest: before, reason: 'wrong-round' }] };
    expect(carry({ pending: sentAs(before) }, untimely).residual).toBe(101);
  });
});
