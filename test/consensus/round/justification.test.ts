/** T-06: which proposals a member prepares: new ones of the view's proposer, and those that a quorum prepared before. */
import type { Message, Proposal, Signed, ViewChangeVote, Vote } from 'nostrain/run';
import { expect, test } from 'vitest';
import type { PreparedClaim } from '../../../src/run/vote.ts';
import { keysOf, outcomeBy, PARENT, RUN } from './model-check/setup.ts';
import { friends, Player, proposalBy, voteBy } from './test-network.ts';

const four = friends(4, 'bft', 3);
const keys = keysOf(four);

/** A member in view 1 that finds these outcomes valid and has committed to nothing. */
function inViewOne(): Player {
  const me = new Player(four, 'w3');
  me.take({ type: 'held', worker: 'w1', manifest: 'm' }, 1);
  for (const digest of ['X', 'Y']) {
    me.take({ type: 'checked', check: { digest, valid: true, acceptable: true, unlisted: [] } }, 1);
  }
  for (const at of [80, 180]) me.take({ type: 'tick' }, at);
  expect(me.state.view).toBe(1);
  return me;
}

/** What a member signs once it has heard these messages. */
const signs = (me: Player, heard: readonly Signed<Message>[], now = 190) => {
  const before = me.all('send').length;
  for (const message of heard) me.hear(message, now);
  return me
    .all('send')
    .slice(before)
    .flatMap(({ message }) =>
      message.type === 'ballot' ? [] : `${message.step} ${message.digest} ${message.justify}`,
    );
};

const X0 = proposalBy(four, 'w0', 'X');
const prepared = ['w1', 'w2'].map((key) => voteBy(four, key, 'prepare', 'X'));
const before = [X0, ...prepared];
const ids = before.map(({ id }) => id);
const again = (more: Partial<Proposal> = {}, key = 'w1') =>
  proposalBy(four, key, 'X', { ...{ view: 1, justify: 0, prepares: ids }, ...more });
const prepareX = (key: string, more: Partial<Vote>) => voteBy(four, key, 'prepare', 'X', more);

test('a new proposal is prepared if it is of the view, its proposer and its own outcome', () => {
  const fresh = (more: Partial<Proposal> = {}, key = 'w1') =>
    proposalBy(four, key, 'Y', { view: 1, ...more });
  expect(signs(inViewOne(), [fresh()])).toEqual(['prepare Y -1']);
  const wrong = [
    fresh({}, 'w2'),
    fresh({ view: 0 }),
    fresh({ outcome: outcomeBy('w0', 'final') }),
    fresh({ outcome: outcomeBy('w1', 'final', ['ballot']) }),
    fresh({ outcome: outcomeBy('w1', 'void') }),
    fresh({ ballots: ['ballot'], outcome: outcomeBy('w1', 'final', ['ballot']) }),
    fresh({ prepares: [X0.id] }),
    fresh({ justify: 0 }),
  ];
  for (const proposal of wrong) expect(signs(inViewOne(), [X0, proposal])).toEqual([]);
  const me = inViewOne();
  expect(signs(me, [fresh(), { ...fresh(), id: 'again' }])).toHaveLength(1);
});

test('an outcome of an earlier view is prepared again if a quorum prepared it there', () => {
  expect(signs(inViewOne(), [...before, again()])).toEqual(['prepare X 0']);
  const two = { ...prepareX('w2', { view: 1 }), id: 'w2 later' };
  const wrong: readonly (readonly Signed<Message>[])[] = [
    [again({ prepares: ids.slice(1) })],
    [again({ prepares: [ids[0]!, ids[1]!, ids[1]!] })],
    [
      voteBy(four, 'w2', 'prepare', 'Y'),
      again({ prepares: [...ids.slice(0, 2), 'w2 prepare Y 0 0'] }),
    ],
    [
      voteBy(four, 'w2', 'commit', 'X'),
      again({ prepares: [...ids.slice(0, 2), 'w2 commit X 0 0'] }),
    ],
    [two, again({ prepares: [...ids.slice(0, 2), two.id] })],
    [again({ justify: 1 })],
    [again({ justify: 2 })],
    // a quorum of the view itself, or of a later one
    ...[1, 2].map((view) => {
      const votes = ['w0', 'w1', 'w2'].map((key) => prepareX(key, { view }));
      return [again({ justify: view, prepares: votes.map(({ id }) => id) }), ...votes];
    }),
    [again({}, 'w2')],
    [again({ ctx: 'other' })],
  ];
  for (const heard of wrong) {
    const prepares = signs(inViewOne(), [...before, ...heard]).filter((each) =>
      each.startsWith('prepare'),
    );
    expect(prepares).toEqual([]);
  }
});

test('prepares that did not arrive are asked for, and the proposal is prepared once they are there', () => {
  const me = inViewOne();
  expect(signs(me, [X0, again()])).toEqual([]);
  expect(me.all('want')).toContainEqual({ type: 'want', what: 'events', ids: ids.slice(1) });
  expect(signs(me, prepared)).toEqual(['prepare X 0']);
});

test('a member that committed prepares another outcome only if a quorum prepared that in a later view', () => {
  const me = inViewOne();
  const voted = ['w0', 'w2'].map((key) => voteBy(four, key, 'prepare', 'X', { view: 1 }));
  expect(signs(me, [proposalBy(four, 'w1', 'X', { view: 1 }), ...voted])).toEqual([
    ...['prepare X -1', 'commit X -1'],
  ]);
  expect(me.state.lock).toMatchObject({ digest: 'X', view: 1 });
  me.take({ type: 'tick' }, 380);
  expect(me.state.view).toBe(2);
  const Y = (view: number, more: Partial<Proposal> = {}) =>
    proposalBy(four, keys[view % 4]!, 'Y', { view, ...more });
  // prepared before it committed, and not at all
  const early = ['w0', 'w1', 'w2'].map((key) => voteBy(four, key, 'prepare', 'Y'));
  const old = { justify: 0, prepares: early.map(({ id }) => id) };
  expect(signs(me, [...early, Y(2, old)], 390)).toEqual([]);
  me.take({ type: 'tick' }, 780);
  const later = ['w0', 'w1', 'w2'].map((key) => voteBy(four, key, 'prepare', 'Y', { view: 2 }));
  me.take({ type: 'tick' }, 1600);
  expect(me.state.view).toBe(4);
  const since = { justify: 2, prepares: later.map(({ id }) => id) };
  expect(signs(me, [...later, Y(4, since)], 1610)).toEqual(['prepare Y 2']);
});

test('in a recovery epoch a new proposal needs view-change votes of that epoch from enough members, one of each', () => {
  const said = { type: 'ballot' as const, run: RUN, round: 0, parent: PARENT, prepared: null };
  const voteOf = (key: string, id = `vote of ${key}`, attempt = 1): Signed<ViewChangeVote> => ({
    ...{ ...said, attempt, key, id },
  });
  const prepares = (listed: readonly Signed<ViewChangeVote>[], heard = listed) => {
    const me = new Player(four, 'w3');
    me.take(
      { type: 'checked', check: { digest: 'Z', valid: true, acceptable: true, unlisted: [] } },
      1,
    );
    for (const at of [80, 5000]) me.take({ type: 'tick' }, at);
    const ballots = listed.map(({ id }) => id);
    const [proposer] = me.context.proposers(1);
    const { ctx } = me.context.draw(
      1,
      listed.map(({ key }) => key),
    );
    const outcome = outcomeBy(proposer!, 'final', ballots);
    const proposal = proposalBy(four, proposer!, 'Z', { attempt: 1, ctx, ballots, outcome });
    const signed = signs(me, [...heard, proposal], 5001);
    return { signed, wants: me.all('want') };
  };
  const three = ['w0', 'w1', 'w3'].map((key) => voteOf(key));
  expect(prepares(three).signed).toEqual(['prepare Z -1']);
  expect(prepares(three.slice(1)).signed).toEqual([]);
  expect(prepares([...three, voteOf('w3', 'once more')]).signed).toEqual([]);
  expect(prepares([...three, voteOf('w2', 'of the next epoch', 2)]).signed).toEqual([]);
  const missing = prepares(three, three.slice(1));
  expect(missing.signed).toEqual([]);
  expect(missing.wants).toContainEqual({ type: 'want', what: 'events', ids: ['vote of w0'] });
});

test('in a recovery epoch the latest outcome that its votes claim and prove is prepared, and no other', () => {
  const setup = four;
  const Y1 = proposalBy(setup, 'w1', 'Y', { view: 1 });
  const preparedY = ['w0', 'w2'].map((key) => voteBy(setup, key, 'prepare', 'Y', { view: 1 }));
  const claimX: PreparedClaim = {
    attempt: 0,
    view: 0,
    digest: 'X',
    proposal: X0.id,
    prepares: ids,
  };
  const claimY: PreparedClaim = {
    ...{ attempt: 0, view: 1, digest: 'Y', proposal: Y1.id },
    prepares: [Y1, ...preparedY].map(({ id }) => id),
  };
  /** What a member signs for a proposal of this outcome, after votes with these claims. */
  const recover = (digest: string, claims: readonly (PreparedClaim | null)[]) => {
    const me = new Player(setup, 'w3');
    for (const each of ['X', 'Y', 'Z']) {
      const check = { digest: each, valid: true, acceptable: true, unlisted: [] };
      me.take({ type: 'checked', check }, 1);
    }
    for (const at of [80, 5000]) me.take({ type: 'tick' }, at);
    expect(me.state.attempt).toBe(1);
    const votes = claims.map((claim, i): Signed<ViewChangeVote> => {
      const said = { type: 'ballot' as const, run: RUN, round: 0, attempt: 1, parent: PARENT };
      return { ...said, prepared: claim, id: `ballot ${i}`, key: ['w0', 'w1', 'w3'][i]! };
    });
    const ballots = votes.map(({ id }) => id);
    const [proposer] = me.context.proposers(1);
    const { ctx } = me.context.draw(
      1,
      votes.map(({ key }) => key),
    );
    const outcome = outcomeBy(proposer!, 'final', ballots);
    const proposal = proposalBy(setup, proposer!, digest, { attempt: 1, ctx, ballots, outcome });
    return signs(me, [...before, Y1, ...preparedY, ...votes, proposal], 5001);
  };
  expect(recover('Z', [null, null, null])).toEqual(['prepare Z -1']);
  expect(recover('Z', [null, null])).toEqual([]);
  expect(recover('X', [null, claimX, null])).toEqual(['prepare X -1']);
  expect(recover('Z', [null, claimX, null])).toEqual([]);
  for (const claims of [
    [claimX, claimY, null],
    [claimY, null, claimX],
  ]) {
    expect(recover('Y', claims)).toEqual(['prepare Y -1']);
    expect(recover('X', claims)).toEqual([]);
  }
  const unproven: readonly Partial<PreparedClaim>[] = [
    { prepares: ids.slice(1) },
    { prepares: claimY.prepares },
    { view: 1 },
    { attempt: 1 },
    { digest: 'Z' },
    { proposal: Y1.id },
    { proposal: prepared[0]!.id },
    { proposal: 'missing' },
  ];
  for (const change of unproven)
    for (const digest of ['X', 'Z'])
      expect(recover(digest, [null, { ...claimX, ...change }, null])).toEqual([]);
});
