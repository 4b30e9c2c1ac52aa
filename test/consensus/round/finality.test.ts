import fc from 'fast-check';
import type { CastVote } from 'nostrain/consensus';
import { describe, expect, test } from 'vitest';
import { cast, friends, Player, proposalBy, TestNetwork, voteBy } from './test-network.ts';

const four = friends(4);
const X = proposalBy(four, 'w0', 'X');
const Y = proposalBy(four, 'w0', 'Y');
const commit = (key: string, digest = 'X', view = 0) =>
  voteBy(four, key, 'commit', digest, { view });
function hearCertificate(
  me: Player,
  proposal: typeof X,
  keys: readonly string[],
  now: number,
): void {
  me.hear(proposal, now);
  for (const key of keys) me.hear(commit(key, proposal.digest), now);
}
const codes = (player: Player) => player.all('refused').map(({ refusal }) => refusal.code);

describe('T-06: k of N finalize', () => {
  test('one or two commits wait, the third of another member ends the round, once', () => {
    const me = new Player(four, 'w3');
    me.hear(X, 1);
    me.hear(commit('w0'), 2);
    me.hear(commit('w1'), 3);
    expect(me.state.decided).toBeNull();
    me.hear(commit('w2'), 4);
    me.hear(commit('w3'), 5);
    expect(me.all('finalized')).toHaveLength(1);
    expect(me.state.decided).toMatchObject({ digest: 'X', view: 0, attempt: 0 });
  });

  test('keys that sign twice, have no seat, or vote in another committee add nothing', () => {
    const me = new Player(four, 'w3');
    me.hear(X, 1);
    me.hear(commit('w0'), 2);
    me.hear(commit('w1'), 3);
    me.hear({ ...commit('w1'), id: 'again' }, 4);
    me.hear(commit('w9'), 5);
    me.hear({ ...commit('w2'), ctx: 'another' }, 6);
    me.hear({ ...commit('w2'), parent: 'another' }, 7);
    expect(me.state.decided).toBeNull();
    expect(codes(me)).toEqual(['not-a-member', 'other-committee', 'other-history']);
  });

  test('commits of two views never add up', () => {
    const me = new Player(four, 'w3');
    me.hear(X, 1);
    me.hear(commit('w0', 'X', 0), 200);
    me.hear(commit('w1', 'X', 0), 200);
    me.hear(commit('w2', 'X', 1), 200);
    expect(me.state.decided).toBeNull();
  });

  test('in whatever order, however often', () => {
    const votes: readonly CastVote[] = [X, ...['w0', 'w1', 'w2', 'w3'].map((key) => commit(key))];
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...votes), { minLength: 30, maxLength: 30 }),
        (heard) => {
          const me = new Player(four, 'w3');
          for (const message of heard) me.hear(message, 1);
          const kinds = new Set(heard.map(({ id }) => id));
          const isDecided = kinds.has(X.id) && kinds.size > 3;
          expect(me.state.decided?.digest).toBe(isDecided ? 'X' : undefined);
          expect(me.all('finalized')).toHaveLength(isDecided ? 1 : 0);
        },
      ),
    );
  });
});

test('T-07: the same certificate five times, and later, advances once and is never refused', () => {
  const me = new Player(four, 'w3');
  for (let i = 0; i < 5; i++) hearCertificate(me, X, ['w0', 'w1', 'w2'], 1);
  hearCertificate(me, X, ['w1', 'w2', 'w3'], 99_999);
  expect(me.all('finalized')).toHaveLength(1);
  expect(codes(me)).toEqual([]);
});

describe('T-08: conflicts', () => {
  test('another certified outcome of a closed round is refused once and changes nothing', () => {
    const me = new Player(four, 'w3');
    hearCertificate(me, X, ['w0', 'w1', 'w2'], 1);
    hearCertificate(me, Y, ['w0', 'w1', 'w2'], 2);
    hearCertificate(me, Y, ['w0', 'w1', 'w2'], 3);
    const refusal = { code: 'conflicting-finalize', round: 0, expected: 'X', got: 'Y' };
    expect(me.all('refused').map((each) => each.refusal)).toEqual([refusal]);
    expect(me.state.decided?.digest).toBe('X');
    expect(me.all('finalized')).toHaveLength(1);
  });

  test('a round above the current one is invalid here', () => {
    const me = new Player(four, 'w3');
    me.hear({ ...commit('w0'), round: 5 }, 1);
    me.hear({ ...X, round: 5 }, 1);
    const refusal = { code: 'invalid-round', round: 5, current: 0 };
    expect(me.all('refused').map((each) => each.refusal)).toEqual([refusal, refusal]);
  });

  test('what is no quorum is no conflict', () => {
    const me = new Player(four, 'w3');
    hearCertificate(me, X, ['w0', 'w1', 'w2'], 1);
    hearCertificate(me, Y, ['w0', 'w1', 'w9'], 2);
    expect(codes(me)).toEqual(['not-a-member']);
    expect(me.state).toMatchObject({ decided: { digest: 'X' }, conflicts: [] });
  });
});

describe('T-10: members go away', () => {
  const three = friends(3, 'cft');

  test('two of three gone is a stall that names them, and no outcome', () => {
    const network = new TestNetwork(three, ['w0']);
    network.waitUntil(20_000);
    expect(network.decided()).toEqual([undefined]);
    const stalls = network.players.get('w0')!.all('stalled');
    expect(stalls.length).toBeGreaterThan(10);
    expect(stalls.find(({ view }) => view === 6)?.missing).toEqual(['w1', 'w2']);
    expect(stalls.find(({ view }) => view === 7)?.missing).toEqual(['w1']);
  });

  test('without contributions, a quorum makes the round void in its first view', () => {
    const network = new TestNetwork(three, ['w0', 'w1']);
    network.waitUntil(200);
    expect(network.decided()).toEqual(['w0 0/0 void', 'w0 0/0 void']);
    const [finalized] = network.players.get('w1')!.all('finalized');
    expect(finalized?.outcome.result).toBe('void');
    expect(finalized?.certificate.commits).toHaveLength(2);
  });

  test('void needs a quorum like any outcome', () => {
    const me = new Player(four, 'w3');
    const outcome = { ...X.outcome, result: 'void' as const };
    hearCertificate(me, { ...X, outcome }, ['w0', 'w1'], 1);
    expect(me.state.decided).toBeNull();
  });
});

describe('R-08: witness duty', () => {
  test('an outsider is refused by name, and matching commits close the round before its view ends', () => {
    const network = new TestNetwork(four, ['w0', 'w1', 'w2', 'w3']);
    for (const worker of ['w0', 'w1', 'w2', 'w3'])
      network.tell({ type: 'held', worker, manifest: worker });
    expect(network.now).toBe(0);
    expect(new Set(network.decided())).toEqual(new Set(['w0 0/0 final']));
    const outsider = new Player(four, 'w3');
    outsider.hear(commit('w9'), 1);
    expect(outsider.all('refused')[0]?.refusal).toEqual({ code: 'not-a-member', key: 'w9' });
  });

  test('witnesses that differ decide nothing in that view', () => {
    const me = new Player(four, 'w3');
    me.hear(X, 1);
    me.hear(Y, 1);
    me.hear(commit('w1', 'X'), 2);
    me.hear(commit('w2', 'X'), 2);
    me.hear(commit('w0', 'Y'), 2);
    expect(me.state.decided).toBeNull();
  });
});

test('one worker alone, and fewer workers than seats', () => {
  for (const workers of [1, 2, 3]) {
    const keys = Array.from({ length: workers }, (_, i) => `w${i}`);
    const network = new TestNetwork(friends(workers), keys);
    network.waitUntil(200);
    expect(new Set(network.decided()).size).toBe(1);
    expect(network.decided()[0]).toBe('w0 0/0 void');
  }
});

test('a worker outside the roster follows without signing', () => {
  const me = new Player(four, 'w9');
  me.take({ type: 'tick' }, 5000);
  me.hear(X, 5000);
  for (const key of ['w0', 'w1', 'w2']) me.hear(commit(key), 5000);
  expect(me.state.decided?.digest).toBe('X');
  expect(me.all('send')).toEqual([]);
  expect(cast.view).toBe(0);
});
