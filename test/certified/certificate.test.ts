/** Which votes decide a round, and which do not: each check against one changed value. */
import { type Certified, electorateOf } from 'nostrain/certified/parts';
import type { Commit, Ledger, Signed } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  certifiedAfter,
  certify,
  judgeViewChanges,
  listed,
  listVotes,
} from '../../src/certified/decisions/certificate.ts';
import type { Evidence, Gathered } from '../../src/certified/decisions/evidence.ts';
import {
  but,
  codeOf,
  eventfulEvidence,
  eventfulRound,
  eventfulRun,
  keyOf,
} from '../support/eventful-run.ts';

const other = 'e'.repeat(64);
const found = eventfulEvidence();
const { spec, run } = eventfulRun();

const messageOf = (ruling: object) =>
  'invalid' in ruling ? (ruling.invalid as { message: string }).message : '';

describe('a certificate', () => {
  const judge = (
    change: (commits: readonly Signed<Commit>[]) => readonly Signed<Commit>[],
    digest?: string,
  ) => {
    const { before, decided } = eventfulRound(1);
    const { certificate } = decided;
    const electorate = electorateOf(before, null);
    return certify(
      before,
      digest ?? certificate.digest,
      change(certificate.commits),
      found,
      electorate,
    );
  };
  /** The votes with a change in one of them. */
  const at = (index: number, change: object) => (commits: readonly Signed<Commit>[]) =>
    commits.map((vote, i) => (i === index ? { ...vote, ...change } : vote));

  it('has one vote of each member, ascending, in whichever order they come', () => {
    const { certificate } = eventfulRound(1).decided;
    for (const order of [certificate.commits, [...certificate.commits].reverse()])
      expect(judge(() => order)).toEqual({ ok: true, value: certificate });
    const keys = certificate.commits.map(({ key }) => key);
    expect(keys).toEqual([...keys].sort());
  });

  it.each<[string, object]>([
    ['is not of', { run: other }],
    ['is not of', { round: 2 }],
    ['is not of', { parent: other }],
    ['is for another outcome', { digest: other }],
    ['is of another view or committee', { attempt: 1 }],
    ['is of another view or committee', { view: 1 }],
    ['is of another view or committee', { ctx: other }],
    ['has no seat', { key: keyOf(9) }],
  ])('does not hold if one vote %s: %j', (message, change) => {
    expect(messageOf(judge(at(1, change)))).toContain(message);
  });

  it('does not hold without a quorum, with a key twice, or of another committee', () => {
    expect(messageOf(judge(() => []))).toContain('no votes for');
    expect(messageOf(judge(([first, second]) => [first!, second!]))).toContain('not a quorum');
    const twice = judge((commits) => [...commits.slice(1), commits[1]!]);
    expect(messageOf(twice)).toBe('a key votes twice');
    const elsewhere = judge((commits) => commits.map((vote) => ({ ...vote, ctx: other })));
    expect(codeOf(elsewhere)).toBe('other-committee');
    expect(messageOf(judge((commits) => commits, other))).toContain('is for another outcome');
  });

  it('is listed by roster index, ascending; a vote that cannot be listed is an error', () => {
    const { before, decided } = eventfulRound(1);
    const { commits, attempt, view } = decided.certificate;
    const { rows } = listVotes(before.ledger, { attempt, view, ctx: '' }, [...commits].reverse());
    const keys = rows.map(({ index }) => before.ledger.members[index]!.key);
    expect(keys).toEqual(commits.map(({ key }) => key));
    expect(rows.map(({ index }) => index)).toEqual([...rows.keys()]);
    const list = (change: object) => () =>
      listVotes(before.ledger, { attempt, view, ctx: '' }, [
        { ...commits[0]!, ...change } as never,
      ]);
    expect(list({ key: keyOf(9) })).toThrow(TypeError);
    expect(list({ signature: undefined })).toThrow(TypeError);
  });
});

describe('view-change votes', () => {
  const situation = { run, round: 3, parent: other, spec, ledger: {} as Ledger };
  const keys = [1, 2, 3].map(keyOf);
  const isFloor = (voters: readonly string[]) => voters.length >= 3;
  const judge = (attempt: number | undefined, changes: readonly object[]) => {
    const votes = changes.map((change, i) => ({
      ...{ type: 'ballot', id: `${i}`, key: keys[i], run, round: 3, parent: other, attempt: 1 },
      ...change,
    }));
    const evidence = { message: (id: string) => votes[Number(id)] } as never as Evidence;
    const ids = [...votes.map(({ id }) => id)];
    return judgeViewChanges(situation, ids, attempt, evidence, { isFloor } as never);
  };

  it('start the epoch that they all name, if they are enough', () => {
    expect(judge(1, [{}, {}, {}])).toEqual({ ok: true, value: keys });
    expect(judge(undefined, [{ attempt: 2 }, { attempt: 2 }, { attempt: 2 }])).toEqual({
      ok: true,
      value: keys,
    });
    expect(messageOf(judge(1, [{}, {}]))).toContain('are not enough');
    expect(messageOf(judge(undefined, []))).toContain('are not enough');
  });

  it.each<[object]>([[{ run: other }], [{ round: 4 }], [{ parent: run }], [{ attempt: 2 }]])(
    'do not with one that has %j',
    (change) => {
      expect(messageOf(judge(1, [{}, change, {}]))).toContain('is not for recovery epoch 1');
    },
  );

  it('do not start epoch 0, or with a key twice', () => {
    expect(codeOf(judge(0, [{ attempt: 0 }, { attempt: 0 }, { attempt: 0 }]))).toBe(
      'wrong-ballots',
    );
    expect(messageOf(judge(1, [{}, {}, { key: keys[0] }]))).toBe('a key has two view-change votes');
  });

  it('are named where they are missing, and refused where they are something else', () => {
    const is = (message: object): message is never =>
      'type' in message && message.type === 'ballot';
    const messages = [
      { id: '0', type: 'ballot' },
      { id: '1', type: 'vote' },
    ];
    const evidence = { message: (id: string) => messages[Number(id)] } as never as Evidence;
    expect(listed(['0', '5', '6'], 'ballots', evidence, is)).toEqual({
      ok: false,
      missing: [
        { what: 'event', id: '5' },
        { what: 'event', id: '6' },
      ],
    });
    expect(codeOf(listed(['0', '1'], 'ballots', evidence, is))).toBe('other-event');
    expect(listed(['0'], 'ballots', evidence, is)).toEqual({ ok: true, value: [messages[0]] });
  });
});

describe('the outcomes that events certify', () => {
  const { before, decided } = eventfulRound(1);
  const digest = decided.certificate.digest;
  const proposals = found.proposalsAfter(before.parent);
  const commits = found.commitsAfter(before.parent);
  const isNone = { ok: true, value: [] };
  const certifiedBy = (change: Partial<Gathered>, state: Certified = before) =>
    certifiedAfter(state, but(change));
  /** Events after this round's outcome are left out, so that only its own votes count. */
  const alone = (own: Partial<Record<'proposals' | 'commits', readonly object[]>>) => ({
    proposalsAfter: (parent: string) =>
      (parent === before.parent ? (own.proposals ?? proposals) : []) as never,
    commitsAfter: () => (own.commits ?? commits) as never,
  });

  it('are one of a round, with its votes, each counted once', () => {
    expect(certifiedBy({})).toEqual({ ok: true, value: [decided] });
    const again = commits.map((vote) => ({ ...vote, id: other }));
    expect(certifiedBy(alone({ commits: [...commits, ...again] }))).toEqual({
      ok: true,
      value: [decided],
    });
    const stranger = { ...commits[0]!, key: keyOf(9) };
    expect(certifiedBy(alone({ commits: [stranger, ...commits] }))).toEqual({
      ok: true,
      value: [decided],
    });
  });

  it('are none after the last round, and of another round', () => {
    const training = { ...spec.training, rounds: 1 };
    expect(certifiedBy({}, { ...before, spec: { ...spec, training } })).toEqual(isNone);
    const shifted = <T extends object>(all: readonly T[]) =>
      all.map((each) => ({ ...each, round: 2 }));
    const later = { proposals: shifted(proposals), commits: shifted(commits) };
    expect(certifiedBy(alone(later))).toEqual(isNone);
    expect(certifiedBy(alone({ ...later, proposals }))).toEqual(isNone);
  });

  it('need a quorum: of the round, of one view, of one committee', () => {
    expect(certifiedBy(alone({ commits: commits.slice(0, 2) }))).toEqual(isNone);
    for (const change of [{ view: 7 }, { ctx: other }, { digest: other }]) {
      const split = commits.map((vote, i) => (i % 2 === 0 ? vote : { ...vote, ...change }));
      expect(certifiedBy(alone({ commits: split })), JSON.stringify(change)).toEqual(isNone);
    }
  });

  it('name the proposal that a quorum committed to and that is missing', () => {
    expect(certifiedBy(alone({ proposals: [] }))).toEqual({
      ok: false,
      missing: [{ what: 'proposal', id: digest }],
    });
    // one outcome that is there is enough
    const another = commits.map((vote) => ({ ...vote, digest: other }));
    expect(certifiedBy(alone({ commits: [...another, ...commits] }))).toEqual({
      ok: true,
      value: [decided],
    });
  });

  it('wait for the beacon value only for what members sent, or what later rounds follow', () => {
    const ledger = { ...before.ledger, entropy: null };
    const dark = { ...before, ledger };
    const strange = proposals.map((each) => ({ ...each, key: keyOf(9) }));
    const missing = { ok: false, missing: [{ what: 'beacon', id: `${before.time}` }] };
    const beacon = () => undefined;
    expect(certifiedBy({ beacon, ...alone({ proposals: strange, commits: [] }) }, dark)).toEqual(
      isNone,
    );
    expect(certifiedBy({ beacon, ...alone({ proposals, commits: [] }) }, dark)).toEqual(missing);
    expect(certifiedBy({ beacon, ...alone({ proposals: strange }) }, dark)).toEqual(missing);
    const followed = {
      ...alone({ commits: [] }),
      proposalsAfter: (parent: string) => (parent === before.parent ? strange : proposals) as never,
    };
    expect(certifiedBy({ beacon, ...followed }, dark)).toEqual(missing);
    const mixed = { ...alone({ proposals: [...strange, ...proposals], commits: [] }) };
    expect(certifiedBy({ beacon, ...mixed }, dark)).toEqual(missing);
  });

  it('hold by what the next outcome of the next round lists, though their votes are gone', () => {
    const next = found.proposalsAfter(digest);
    const listing = (all: readonly object[]) => ({
      commitsAfter: () => [],
      proposalsAfter: (parent: string) => (parent === digest ? all : proposals) as never,
    });
    expect(certifiedBy(listing(next))).toEqual({ ok: true, value: [decided] });
    expect(certifiedBy(listing(next.map((each) => ({ ...each, round: 5 }))))).toEqual(isNone);
    const unsigned = next.map(({ outcome, ...each }) => ({
      ...each,
      outcome: { ...outcome, votes: null },
    }));
    expect(certifiedBy(listing(unsigned))).toEqual(isNone);
    expect(certifiedBy({ ...listing(next), isSigned: () => false })).toEqual(isNone);
  });
});
