/** What a member refuses from the network, and that what it refuses changes nothing. */
import type { Message, Signed, ViewChangeVote } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import {
  isSameSlot,
  type ManifestClaim,
  type Statement,
} from '../../../src/consensus/round/receive.ts';
import type { RoundState } from '../../../src/consensus/round/round-state.ts';
import { drawFor, keysOf, PARENT, RUN } from './model-check/setup.ts';
import { cast, friends, Player, proposalBy, voteBy } from './test-network.ts';

/** Nine members of whom four have a seat, other ones in each recovery epoch, and a floor of five. */
const sampled = { ...friends(9, 'bft', 5), seats: 4 };
const draw = drawFor(sampled);
const seated = draw(0, []).members;
const [unseated] = keysOf(sampled).filter((key) => !seated.includes(key));

/** A member whose time for contributions is up. */
function listener(): Player {
  const me = new Player(sampled, seated[3]!);
  Object.assign(me, { context: { ...me.context, isSampled: true } });
  me.take({ type: 'tick' }, 80);
  return me;
}

const ballotBy = (key: string, attempt = 1, id = `ballot ${key}`): Signed<ViewChangeVote> => {
  const said = { type: 'ballot' as const, run: RUN, round: 0, attempt, parent: PARENT };
  return { ...said, prepared: null, id, key };
};
const votesOf = ({ votes, ballots, faulty, decided, lock }: RoundState) => ({
  ...{ votes, ballots, faulty, decided, lock },
});

describe('R-08, T-06: a member refuses', () => {
  const vote = (key: string, more = {}) => voteBy(sampled, key, 'commit', 'X', more);
  const first = seated[0]!;
  const later = draw(1, []);
  const [others] = later.members.filter((key) => !seated.includes(key));

  test.each<[string, Signed<Message>, object]>([
    [
      'a vote of another round',
      { ...vote(first), round: 1 },
      { code: 'invalid-round', round: 1, current: 0 },
    ],
    ['a vote of another run', { ...vote(first), run: 'other' }, { code: 'other-history' }],
    ['a vote of another branch', { ...vote(first), parent: 'other' }, { code: 'other-history' }],
    ['a vote of a stranger', vote('w99'), { code: 'not-a-member' }],
    ['a ballot of a stranger', ballotBy('w99'), { code: 'not-a-member' }],
    ['a vote of a member without a seat', vote(unseated!), { code: 'not-a-member' }],
    ['its proposal', proposalBy(sampled, unseated!, 'X'), { code: 'not-a-member' }],
    [
      'a vote under another committee',
      { ...vote(first), ctx: later.ctx },
      { code: 'other-committee' },
    ],
    ['a vote of a view to come', vote(first, { view: 2 }), { code: 'too-early' }],
    ['a vote of an epoch to come', vote(first, { attempt: 2 }), { code: 'too-early' }],
    ['a ballot of an epoch to come', ballotBy(first, 2), { code: 'too-early' }],
    [
      'in a recovery epoch a vote of a key whose seat was in the first',
      { ...vote(seated.find((key) => !later.members.includes(key))!), attempt: 1, ctx: later.ctx },
      { code: 'not-a-member' },
    ],
  ])('%s', (_, message, refusal) => {
    const me = listener();
    const before = votesOf(me.state);
    me.hear(message, 81);
    expect(me.all('refused').map((each) => each.refusal)).toMatchObject([refusal]);
    expect(votesOf(me.state)).toEqual(before);
  });

  test('nothing of members with a seat, in the first committee and in that of an epoch', () => {
    const me = listener();
    const heard = [
      proposalBy(sampled, first, 'X'),
      vote(first, { view: 1 }),
      vote(seated[1]!),
      ballotBy(unseated!),
      { ...vote(others!), attempt: 1, ctx: later.ctx },
    ];
    for (const message of heard) me.hear(message, 81);
    expect(me.all('refused')).toEqual([]);
    expect([...me.state.votes, ...me.state.ballots].map(({ id }) => id).sort()).toEqual(
      heard.map(({ id }) => id).sort(),
    );
  });

  test('votes of members without a seat, so that they never make a quorum', () => {
    const me = listener();
    me.hear(proposalBy(sampled, first, 'X'), 81);
    for (const key of keysOf(sampled)) if (!seated.includes(key)) me.hear(vote(key), 81);
    for (const key of seated.slice(0, 2)) me.hear(vote(key), 81);
    expect(me.state.decided).toBeNull();
    me.hear(vote(seated[2]!), 81);
    expect(me.state.decided).toMatchObject({ digest: 'X' });
  });
});

describe('the messages of an equivocator', () => {
  const four = friends(4);
  const vote = (digest: string, key = 'w1') => voteBy(four, key, 'prepare', digest);

  test('are two in a slot; a third is refused unless it was asked for by id, or an honest member voted the same', () => {
    const me = new Player(four, 'w3');
    for (const digest of ['A', 'B', 'C']) me.hear(vote(digest), 1);
    expect(me.all('refused').map(({ refusal }) => refusal)).toEqual([
      { code: 'too-many', key: 'w1' },
    ]);
    expect(me.state.votes.map(({ digest }) => digest)).toEqual(['A', 'B']);
    expect(me.state.faulty).toEqual(['w1']);
    // slots of their own: another step, another view, another key
    const own = [voteBy(four, 'w1', 'commit', 'A'), { ...vote('A'), view: 1, id: 'view' }];
    for (const message of [...own, vote('D', 'w2')]) me.hear(message, 90);
    expect(me.state.votes).toHaveLength(5);
    me.hear(vote('D'), 91);
    expect(me.state.votes).toHaveLength(6);
    me.state = { ...me.state, asked: ['want E', `x ${vote('F').id}`] };
    me.hear(vote('E'), 92);
    me.hear(vote('F'), 92);
    expect(me.state.votes.map(({ digest }) => digest).slice(6)).toEqual(['F']);
    const wanted = proposalBy(four, 'w1', 'E');
    me.hear(wanted, 93);
    expect(me.state.votes.at(-1)).toEqual(wanted);
    expect(me.all('refused')).toHaveLength(2);
  });

  test('count beyond two only for what an honest member voted for in that very view, once', () => {
    const me = new Player(four, 'w3');
    for (const digest of ['A', 'B']) me.hear(vote(digest), 1);
    const refused = (message: Signed<Message>) =>
      me.hear(message, 90).some((effect) => effect.type === 'refused');
    // of another view, of another step of its own, of members that are faulty too
    for (const each of ['A', 'B']) me.hear({ ...vote(each, 'w0'), id: `${each} w0` }, 90);
    me.hear({ ...vote('C', 'w2'), view: 1, id: 'view' }, 90);
    me.hear(vote('D', 'w0'), 90);
    expect([refused(vote('C')), refused(vote('D'))]).toEqual([true, true]);
    me.hear(vote('E', 'w2'), 90);
    expect(refused(vote('E'))).toBe(false);
    expect(refused({ ...vote('E'), id: 'again' })).toBe(true);
    for (const digest of ['F', 'G']) me.hear(voteBy(four, 'w1', 'commit', digest), 90);
    // it has a prepare for that outcome, but no commit
    expect(refused(voteBy(four, 'w1', 'commit', 'E'))).toBe(false);
  });

  test('two ballots in an epoch', () => {
    const me = new Player(friends(4, 'bft', 3), 'w3');
    for (const id of ['1', '2', '3']) me.hear(ballotBy('w1', 1, id), 1);
    expect(me.all('refused').map(({ refusal }) => refusal.code)).toEqual(['too-many']);
    expect(me.state.ballots).toHaveLength(2);
  });
});

test('a member that is behind gets the certificate of a decided round, but not for what came before it', () => {
  const four = friends(4);
  const me = new Player(four, 'w3');
  const X = proposalBy(four, 'w0', 'X', { view: 1 });
  const commits = ['w0', 'w1', 'w2'].map((key) => voteBy(four, key, 'commit', 'X', { view: 1 }));
  for (const message of [X, ...commits]) me.hear(message, 200);
  expect(me.state.decided).toMatchObject({ view: 1 });
  const ids = [X.id, ...commits.map(({ id }) => id)].sort();
  const resent = (message: Signed<Message>) =>
    me
      .hear(message, 700)
      .flatMap((effect) => (effect.type === 'resend' ? [[...effect.ids].sort()] : []));
  const late = voteBy(four, 'w1', 'prepare', 'Y', { view: 2 });
  expect(resent(late)).toEqual([ids]);
  // also if it sends that again, but never for its own messages
  expect(resent(late)).toEqual([ids]);
  expect(resent(voteBy(four, 'w3', 'prepare', 'Y', { view: 2 }))).toEqual([]);
  for (const view of [0, 1])
    expect(resent(voteBy(four, 'w2', 'prepare', 'Y', { view }))).toEqual([]);
});

test('two statements are in one slot if all that names the slot is the same', () => {
  const vote: Statement = {
    ...cast,
    type: 'vote',
    step: 'prepare',
    ctx: 'c',
    digest: 'A',
    key: 'w1',
    id: '1',
  };
  const manifest: ManifestClaim & { key: string; id: string } = {
    ...{ type: 'manifest', run: RUN, round: 0, parent: PARENT, content: 'a', key: 'w1', id: '2' },
  };
  const ballot = ballotBy('w1');
  for (const each of [vote, manifest, ballot]) {
    expect(isSameSlot(each, { ...each, id: 'other' })).toBe(true);
    for (const change of [{ key: 'w2' }, { round: 1 }, { parent: 'other' }, { run: 'other' }]) {
      expect(isSameSlot(each, { ...each, ...change })).toBe(false);
    }
  }
  expect(isSameSlot(vote, { ...vote, view: 1 })).toBe(false);
  expect(isSameSlot(vote, { ...vote, attempt: 1 })).toBe(false);
  expect(isSameSlot(ballot, { ...ballot, attempt: 2 })).toBe(false);
  expect(isSameSlot(vote, { ...vote, step: 'commit' } as Statement)).toBe(false);
  for (const other of [manifest, ballot]) {
    expect([isSameSlot(vote, other), isSameSlot(other, vote)]).toEqual([false, false]);
  }
});
