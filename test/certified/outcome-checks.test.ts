/** What makes an outcome invalid that a quorum could have signed, and the code that says so. */
import {
  applyOutcome,
  applyToChain,
  gather,
  genesisOf,
  hasModel,
  replay,
  startOf,
  withoutModel,
} from 'nostrain/certified/parts';
import { proposal, vote } from 'nostrain/kinds';
import type { Outcome } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import type { Certified } from '../../src/certified/decisions/chain.ts';
import { convicts, jurorsOf } from '../../src/certified/decisions/roster-change.ts';
import { quorumOf } from '../../src/consensus/committee/quorum.ts';
import {
  certifiedSpec,
  eventful,
  generateRun,
  type Round,
  signerOf,
} from '../support/certified-run.ts';

const keyOf = (number: number) => signerOf(number).publicKey;
const none = 'f'.repeat(64);

/** The outcomes of a generated run, each with the state before it. */
function outcomesOf(rounds: readonly Round[]) {
  const { spec, run, events } = generateRun(rounds, certifiedSpec({ late: 'defer' }));
  const evidence = gather(events, { run, spec });
  const decided = [...replay(genesisOf(spec, startOf(spec)), evidence)].map((each) => {
    if (each.decided === undefined || !hasModel(each.before)) throw new Error('not replayed');
    return { before: each.before, outcome: each.decided.outcome };
  });
  return { run, events, evidence, decided };
}

const made = outcomesOf(eventful);
const voteBy = (number: number) =>
  made.events.find(({ kind, pubkey }) => kind === vote.kind && pubkey === keyOf(number))!.id;

/** The code of an invalid outcome, `missing` if evidence is, or `valid`. */
function ruling(
  { evidence, decided }: Pick<ReturnType<typeof outcomesOf>, 'evidence' | 'decided'>,
  round: number,
  change: (outcome: Outcome) => Partial<Outcome>,
  apply: (state: Certified, outcome: Outcome) => ReturnType<typeof applyToChain> = (
    state,
    outcome,
  ) => applyOutcome(state, outcome, evidence),
): string {
  const { before, outcome } = decided[round]!;
  const judged = apply(before, { ...outcome, ...change(outcome) });
  if (judged.ok) return 'valid';
  return 'missing' in judged ? 'missing' : judged.invalid.code;
}

/** The list with one entry changed. */
const changed = <T>(list: readonly T[], at: number, change: Partial<T>): readonly T[] =>
  list.map((each, i) => (i === at ? { ...each, ...change } : each));
const votesWith = (
  { votes }: Outcome,
  rows: (rows: NonNullable<Outcome['votes']>['rows']) => NonNullable<Outcome['votes']>['rows'],
) => ({
  votes: { ...votes!, rows: rows(votes!.rows) },
});
const other = (round: number) => made.decided[round]!.outcome;

type Change = (outcome: Outcome) => Partial<Outcome>;
const cases: Readonly<Record<string, readonly [round: number, code: string, change: Change][]>> = {
  'names another place in the history': [
    [1, 'wrong-run', () => ({ run: none })],
    [1, 'wrong-round', () => ({ round: 2 })],
    [1, 'wrong-parent', () => ({ parent: none })],
    [1, 'wrong-base', () => ({ base: none })],
  ],
  'claims other roots than follow from it': [
    [1, 'wrong-rowSize', ({ rowSize }) => ({ rowSize: 2 * rowSize })],
    [1, 'wrong-modelRoot', () => ({ modelRoot: none })],
    [1, 'wrong-ledgerRoot', () => ({ ledgerRoot: none })],
    [5, 'wrong-ledgerRoot', () => ({ faults: [] })],
  ],
  'accepts what does not count': [
    [1, 'nothing-accepted', () => ({ accepted: [] })],
    [3, 'void-accepts', () => ({ accepted: other(2).accepted })],
    [1, 'not-in-roster', ({ accepted }) => ({ accepted: changed(accepted, 0, { index: 9 }) })],
    [
      1,
      'other-author',
      ({ accepted }) => ({ accepted: changed(accepted, 0, { manifest: accepted[1]!.manifest }) }),
    ],
    [0, 'not-late', ({ accepted }) => ({ accepted: changed(accepted, 0, { late: true }) })],
    [1, 'not-late', ({ accepted }) => ({ accepted: changed(accepted, 0, { late: true }) })],
    [
      1,
      'other-event',
      ({ accepted }) => ({ accepted: changed(accepted, 0, { manifest: voteBy(1) }) }),
    ],
    [1, 'missing', ({ accepted }) => ({ accepted: changed(accepted, 0, { manifest: none }) })],
    [
      1,
      'wrong-round',
      ({ accepted }) => ({
        accepted: changed(accepted, 0, { manifest: other(0).accepted[0]!.manifest }),
      }),
    ],
    [1, 'wrong-empty', ({ accepted }) => ({ accepted: changed(accepted, 0, { empty: true }) })],
    [
      4,
      'base-mismatch',
      ({ accepted, rejected }) => ({
        accepted: [...accepted, { late: false, ...rejected[0]! }],
        rejected: [],
      }),
    ],
  ],
  'rejects what counts, or for another reason': [
    [
      4,
      'both-ways',
      ({ accepted }) => ({ rejected: [{ ...accepted[0]!, reason: 'base-mismatch' }] }),
    ],
    [
      4,
      'untrue-reason',
      ({ accepted }) => ({
        accepted: accepted.slice(1),
        rejected: [{ ...accepted[0]!, reason: 'base-mismatch' }],
      }),
    ],
    [
      4,
      'untrue-reason',
      ({ rejected }) => ({ rejected: changed(rejected, 0, { reason: 'wrong-round' }) }),
    ],
    [4, 'other-author', ({ rejected }) => ({ rejected: changed(rejected, 0, { index: 0 }) })],
    [
      4,
      'other-event',
      ({ rejected }) => ({ rejected: changed(rejected, 0, { manifest: voteBy(5) }) }),
    ],
    [4, 'missing', ({ rejected }) => ({ rejected: changed(rejected, 0, { manifest: none }) })],
  ],
  'has no quorum behind the outcome before': [
    [0, 'no-quorum', () => ({ votes: other(1).votes })],
    [1, 'no-quorum', () => ({ votes: null })],
    [1, 'no-quorum', (outcome) => votesWith(outcome, () => [])],
    [1, 'no-quorum', (outcome) => votesWith(outcome, (rows) => rows.slice(0, 2))],
    [1, 'no-quorum', (outcome) => votesWith(outcome, (rows) => [...rows, rows[0]!])],
    [1, 'no-quorum', (outcome) => votesWith(outcome, (rows) => changed(rows, 0, { index: 9 }))],
    [
      2,
      'bad-signature',
      (outcome) => votesWith(outcome, (rows) => changed(rows, 0, { sig: rows[1]!.sig })),
    ],
    [
      2,
      'bad-signature',
      (outcome) => votesWith(outcome, (rows) => changed(rows, 0, { unlisted: [3] })),
    ],
    [2, 'other-committee', () => ({ votes: other(1).votes })],
    [1, 'bad-signature', ({ votes }) => ({ votes: { ...votes!, view: 1 } })],
    [1, 'other-committee', ({ votes }) => ({ votes: { ...votes!, ctx: none } })],
    [1, 'missing', ({ votes }) => ({ votes: { ...votes!, attempt: 1 } })],
  ],
  'lists joins and leaves that their keys did not sign for now': [
    [1, 'old-join', ({ joins }) => ({ joins: changed(joins, 0, { after: none }) })],
    [1, 'bad-signature', ({ joins, run }) => ({ joins: changed(joins, 0, { after: run }) })],
    [1, 'bad-signature', ({ joins }) => ({ joins: changed(joins, 0, { tip: none }) })],
    [1, 'join-twice', ({ joins }) => ({ joins: [...joins, ...joins] })],
    [6, 'wrong-leave', ({ leaves }) => ({ leaves: changed(leaves, 0, { last: 7 }) })],
    [6, 'wrong-leave', ({ leaves }) => ({ leaves: changed(leaves, 0, { last: -1 }) })],
    [6, 'bad-signature', ({ leaves }) => ({ leaves: changed(leaves, 0, { last: 5 }) })],
    [6, 'bad-signature', ({ leaves }) => ({ leaves: changed(leaves, 0, { key: keyOf(1) }) })],
  ],
  'is proposed by a key without a seat, or with the reveal of another key': [
    [2, 'not-a-member', () => ({ proposer: keyOf(5) })],
    [
      2,
      'wrong-reveal',
      ({ proposer }) => ({ proposer: [1, 2].map(keyOf).find((key) => key !== proposer)! }),
    ],
    [2, 'wrong-reveal', () => ({ reveal: other(1).reveal })],
    [2, 'wrong-reveal', () => ({ reveal: '' })],
  ],
  'lists proofs that are none, or votes for a recovery that was not': [
    [5, 'other-event', () => ({ faults: [voteBy(1)] })],
    [5, 'missing', () => ({ faults: [none] })],
    [2, 'other-event', () => ({ ballots: [voteBy(1)] })],
  ],
};

describe('an outcome', () => {
  it('is valid as it was made, and leads to the next state, with the model or without', () => {
    made.decided.forEach(({ before, outcome }, round) => {
      expect(ruling(made, round, () => ({}))).toBe('valid');
      const chain = applyToChain(withoutModel(before), outcome, made.evidence);
      expect(chain.ok && chain.value.ledgerRoot).toBe(outcome.ledgerRoot);
    });
  });

  it.each(Object.entries(cases))('is invalid if it %s', (_, listed) => {
    const codes = listed.map(([round, , change]) => ruling(made, round, change));
    expect(codes).toEqual(listed.map(([, code]) => code));
  });

  it('is invalid if its step gives a value that is not finite', () => {
    const code = ruling(
      made,
      1,
      () => ({}),
      (state, outcome) => {
        const momentum = state.momentum.slice().fill(Number.POSITIVE_INFINITY);
        return applyOutcome({ ...state, momentum }, outcome, made.evidence);
      },
    );
    expect(code).toBe('not-finite');
  });

  it('without the model is held against everything but contributions and model root', () => {
    const inChain = (round: number, change: Change) =>
      ruling(made, round, change, (state, outcome) =>
        applyToChain(withoutModel(state), outcome, made.evidence),
      );
    const isOfModel = (code: string) =>
      /^(wrong-(rowSize|modelRoot|round|empty)|missing|other-(author|event)|not-late|base-mismatch|both-ways|untrue-reason)$/.test(
        code,
      );
    for (const [round, code, change] of Object.values(cases).flat())
      if (!isOfModel(code)) expect(inChain(round, change)).toBe(code);
  });

  it('of a recovery epoch lists enough view-change votes of that epoch, one of each key', () => {
    const recovered = outcomesOf([{}, { attempt: 1, balloting: [2, 3, 4] }, { attempt: 2 }]);
    const codeOf = (ballots: (ids: readonly string[]) => readonly string[]) =>
      ruling(recovered, 1, (outcome) => ({ ballots: ballots(outcome.ballots) }));
    const later = recovered.decided[2]!.outcome.ballots;
    const proposalId = recovered.events.find(({ kind }) => kind === proposal.kind)!.id;
    expect(codeOf((ids) => ids)).toBe('valid');
    expect(codeOf((ids) => ids.slice(1))).toBe('wrong-ballots');
    expect(codeOf((ids) => [...ids, ids[0]!])).toBe('wrong-ballots');
    expect(codeOf(() => later)).toBe('wrong-ballots');
    expect(codeOf((ids) => [...ids, proposalId])).toBe('other-event');
    expect(codeOf((ids) => [...ids, none])).toBe('missing');
  });
});

describe('a jury', () => {
  const members = [1, 2, 3, 4].map(keyOf);
  const juryOf = (size: number) => ({
    ...{ round: 1, attempt: 0, ctx: '', size, quorum: quorumOf('bft', size) },
    ...{ members: members.slice(0, size), weights: members.slice(0, size).map(() => 1n) },
  });

  it('convicts by a quorum of its members, and never by one verdict', () => {
    expect(convicts(juryOf(1), members)).toBe(false);
    expect(convicts(juryOf(2), members)).toBe(true);
    expect(convicts(juryOf(4), members.slice(0, 2))).toBe(false);
    expect(convicts(juryOf(4), [...members.slice(0, 2), keyOf(5)])).toBe(false);
    expect(convicts(juryOf(4), members.slice(0, 3))).toBe(true);
  });

  it('never has the author of the contribution among its members', () => {
    const drawn = { run: none, round: 1, worker: keyOf(2), entropy: none };
    expect([...jurorsOf(drawn, members)].sort()).toEqual([1, 3, 4].map(keyOf).sort());
    const orders = [1, 2, 3, 4, 5, 6].map((round) => jurorsOf({ ...drawn, round }, members).join());
    expect(new Set(orders).size).toBeGreaterThan(1);
  });
});
