/** What a member proposes, prepares and commits to when it is its turn, and what it asks for first. */
import type { Effect } from 'nostrain/consensus';
import type { Message, Signed, ViewChangeVote } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import type { PreparedClaim } from '../../../src/run/vote.ts';
import { outcomeBy, PARENT, RUN } from './model-check/setup.ts';
import { friends, Player, proposalBy, voteBy } from './test-network.ts';

const four = friends(4, 'bft', 3);
const X0 = proposalBy(four, 'w0', 'X');
const prepareX = ['w3', 'w2'].map((key) => voteBy(four, key, 'prepare', 'X'));
const quorum: readonly Signed<Message>[] = [X0, ...prepareX];
const ids = quorum.map(({ id }) => id).sort();
const checkOf = (digest: string, valid = true, acceptable = valid) => ({
  ...({ type: 'checked', check: { digest, valid, acceptable, unlisted: [] } } as const),
});

/** A member with one contribution; it closes at 80, view 1 follows at 180. */
function player(me: string, ...heard: readonly Signed<Message>[]): Player {
  const made = new Player(four, me);
  made.take({ type: 'held', worker: 'w1', manifest: 'm' }, 1);
  for (const message of heard) made.hear(message, 2);
  return made;
}
const wake = (me: Player, ...times: readonly number[]): void => {
  for (const at of times) me.take({ type: 'tick' }, at);
};
const signed = (me: Player, step: 'prepare' | 'commit', type: Message['type'] = 'vote') =>
  me.all('send').flatMap(({ message }) => {
    if (message.type === 'ballot' || message.type !== type || message.step !== step) return [];
    return [message];
  });
const proposals = (me: Player) => signed(me, 'prepare', 'proposal');
const asked = (me: Player, effect: Effect) =>
  me.effects.some((each) => JSON.stringify(each) === JSON.stringify(effect));

describe('the proposer of a later view', () => {
  test('proposes again what a quorum prepared, with the proof, whether it has committed to it or not', () => {
    for (const isLocked of [true, false]) {
      const me = player('w1', ...quorum);
      if (isLocked) me.take(checkOf('X'), 3);
      wake(me, 80, 180);
      expect(me.state.lock?.digest).toBe(isLocked ? 'X' : undefined);
      if (!isLocked) {
        expect(proposals(me)).toEqual([]);
        expect(me.all('compose')).toEqual([]);
        // one that no longer arrived in time is proposed all the same
        me.take(checkOf('X', true, false), 181);
      }
      expect(proposals(me)).toMatchObject([
        {
          digest: 'X',
          view: 1,
          attempt: 0,
          justify: 0,
          prepares: ids,
          ballots: [],
          outcome: X0.outcome,
        },
      ]);
    }
  });

  test('proposes nothing if what a quorum prepared is invalid here', () => {
    const me = player('w1', ...quorum);
    me.take(checkOf('X', false), 3);
    wake(me, 80, 180);
    expect(proposals(me)).toEqual([]);
    expect(me.all('compose')).toEqual([]);
  });

  test('composes a new outcome if no quorum prepared one', () => {
    const me = player('w1', ...quorum.slice(1));
    wake(me, 80, 180);
    expect(me.all('compose')).toEqual([
      { type: 'compose', attempt: 0, view: 1, result: 'final', ballots: [] },
    ]);
  });
});

describe('a new outcome', () => {
  const compose = (me: Player, digest: string, view: number, acceptable: boolean, now: number) => {
    const composed = { attempt: 0, view, digest, outcome: outcomeBy('w0', 'final') };
    me.take({ type: 'composed', composed, check: checkOf(digest, true, acceptable).check }, now);
  };

  test('is proposed in its own view only', () => {
    const me = player('w0');
    let now = 80;
    for (; me.state.view < 4; now += 50) wake(me, now);
    compose(me, 'old', 0, true, now);
    expect(proposals(me)).toEqual([]);
    compose(me, 'new', 4, true, now);
    expect(proposals(me)).toMatchObject([{ digest: 'new', view: 4, justify: -1, prepares: [] }]);
  });

  test('is proposed if its own author finds it acceptable', () => {
    const me = player('w0');
    wake(me, 80);
    compose(me, 'A', 0, false, 81);
    expect(proposals(me)).toEqual([]);
    const other = player('w0');
    other.take(checkOf('B'), 3);
    wake(other, 80);
    compose(other, 'A', 0, true, 81);
    expect(proposals(other)).toMatchObject([{ digest: 'A', view: 0 }]);
  });
});

describe('in a recovery epoch', () => {
  const claim: PreparedClaim = {
    ...{ attempt: 0, view: 0, digest: 'X', proposal: X0.id, prepares: ids },
  };
  /** The proposer of epoch 1 after view-change votes with these claims. */
  function proposerOf(
    claims: readonly (PreparedClaim | null)[],
    heard: readonly Signed<Message>[],
    isValid = true,
  ): Player {
    const [proposer] = new Player(four, 'w0').context.proposers(1);
    const me = player(proposer!, ...heard);
    me.take(checkOf('X', isValid), 3);
    wake(me, 80, 5000);
    expect(me.state.attempt).toBe(1);
    const voters = ['w0', 'w1', 'w3'].filter((key) => key !== proposer);
    [...voters, proposer!].slice(0, claims.length).forEach((key, i) => {
      const said = { type: 'ballot' as const, run: RUN, round: 0, attempt: 1, parent: PARENT };
      const vote: Signed<ViewChangeVote> = {
        ...said,
        prepared: claims[i]!,
        id: `ballot ${i}`,
        key,
      };
      me.hear(vote, 5001);
    });
    // others would have had half a view to send theirs
    wake(me, 5051);
    return me;
  }
  const ballots = ['ballot 0', 'ballot 1', 'ballot 2'];

  test('the outcome that a vote claims and proves is proposed again, without other proof', () => {
    const me = proposerOf([null, claim, null], quorum);
    expect(proposals(me)).toMatchObject([
      { digest: 'X', attempt: 1, justify: -1, prepares: [], ballots, outcome: X0.outcome },
    ]);
    expect(me.all('compose').filter(({ attempt }) => attempt === 1)).toEqual([]);
  });

  test('a claim without its proof stops the proposer, and so does an outcome that is invalid here', () => {
    const unproven = proposerOf([null, claim, null], quorum.slice(0, 2));
    const invalid = proposerOf([null, claim, null], quorum, false);
    for (const me of [unproven, invalid]) {
      expect(proposals(me)).toEqual([]);
      expect(me.all('compose').filter(({ attempt }) => attempt === 1)).toEqual([]);
    }
  });

  test('without claims a new outcome is composed', () => {
    const me = proposerOf([null, null, null], quorum.slice(0, 1));
    expect(me.all('compose').at(-1)).toMatchObject({ attempt: 1, ballots });
  });
});

describe('a member', () => {
  test('prepares what it has checked, and asks to check the rest', () => {
    const me = player('w3', X0);
    me.take(checkOf('Y'), 3);
    wake(me, 80);
    expect(signed(me, 'prepare')).toEqual([]);
    expect(asked(me, { type: 'check', digest: 'X', outcome: X0.outcome })).toBe(true);
    me.take(checkOf('X', false), 81);
    expect(signed(me, 'prepare')).toEqual([]);
    // a newer check of the same outcome replaces the first
    me.take(checkOf('X'), 82);
    expect(signed(me, 'prepare')).toMatchObject([{ digest: 'X', justify: -1 }]);
  });

  test('prepares what a quorum prepared even if it came too late here, and nothing new against its lock', () => {
    const view1 = proposalBy(four, 'w1', 'X', { view: 1, justify: 0, prepares: ids });
    const late = player('w3');
    wake(late, 80, 180);
    late.take(checkOf('X', true, false), 181);
    for (const message of [...quorum, view1]) late.hear(message, 190);
    expect(signed(late, 'prepare')).toMatchObject([{ digest: 'X', view: 1, justify: 0 }]);
    const locked = player('w3', ...quorum);
    for (const digest of ['X', 'Y']) locked.take(checkOf(digest), 3);
    wake(locked, 80, 180);
    expect(locked.state.lock?.digest).toBe('X');
    locked.hear(proposalBy(four, 'w1', 'Y', { view: 1 }), 190);
    expect(signed(locked, 'prepare').map(({ digest }) => digest)).toEqual(['X']);
  });

  test('commits only to what is valid here and was proposed, and asks for the proposal', () => {
    const invalid = player('w3', ...quorum);
    invalid.take(checkOf('X', false), 3);
    const votes = ['w0', 'w1', 'w2'].map((key) => voteBy(four, key, 'prepare', 'X'));
    const unproposed = player('w3', ...votes);
    unproposed.take(checkOf('X'), 3);
    for (const me of [invalid, unproposed]) {
      wake(me, 80);
      expect(signed(me, 'commit')).toEqual([]);
    }
    expect(asked(unproposed, { type: 'want', what: 'outcome', digest: 'X' })).toBe(true);
    unproposed.hear(X0, 81);
    expect(signed(unproposed, 'commit')).toMatchObject([{ digest: 'X', view: 0 }]);
  });

  test('has a certificate on disk before it says so, and reports each other certificate once', () => {
    const me = player('w3');
    const certify = (digest: string) => {
      const before = me.effects.length;
      me.hear(proposalBy(four, 'w0', digest), 90);
      for (const key of ['w0', 'w1', 'w2']) me.hear(voteBy(four, key, 'commit', digest), 90);
      return me.effects.slice(before).map(({ type }) => type);
    };
    const types = certify('X').filter((type) => type === 'persist' || type === 'finalized');
    expect(types).toEqual(['persist', 'finalized']);
    const { closed, view } = me.state;
    expect(certify('Y').filter((type) => type === 'refused')).toHaveLength(1);
    expect(me.state).toMatchObject({ decided: { digest: 'X' }, conflicts: ['Y'], closed, view });
    me.hear({ ...voteBy(four, 'w3', 'commit', 'Y'), id: 'once more' }, 91);
    expect(me.all('refused')).toHaveLength(1);
  });

  test('takes no outcome for decided whose proposal it lacks', () => {
    const commits = ['w0', 'w1', 'w2'].map((key) => voteBy(four, key, 'commit', 'X'));
    const me = player('w3', proposalBy(four, 'w0', 'Z'), ...commits);
    expect(me.state.decided).toBeNull();
    expect(asked(me, { type: 'want', what: 'outcome', digest: 'X' })).toBe(true);
  });

  test('says at the end of a view who has not prepared in it', () => {
    const stalled = (...heard: readonly Signed<Message>[]) => {
      const me = player('w3', ...heard);
      wake(me, 80, 180);
      return me.all('stalled').map(({ missing }) => missing);
    };
    const commit = voteBy(four, 'w2', 'commit', 'X');
    const later = voteBy(four, 'w2', 'prepare', 'X', { view: 1 });
    expect(stalled(X0, voteBy(four, 'w1', 'prepare', 'X'), commit, later)).toEqual([['w2', 'w3']]);
    expect(stalled(voteBy(four, 'w1', 'prepare', 'X'))).toEqual([['w0']]);
  });

  test('sends after a restart what it signed in its epoch and view', () => {
    const me = player('w3', X0);
    me.take(checkOf('X'), 3);
    wake(me, 80);
    const resent = (now: number) =>
      me
        .take({ type: 'restart' }, now)
        .flatMap((effect) => (effect.type === 'send' ? [effect.message.type] : []));
    expect(resent(90)).toEqual(['vote']);
    wake(me, 180);
    expect(resent(190)).toEqual([]);
    wake(me, 5000);
    expect(me.state.attempt).toBe(1);
    expect(resent(5010)).toEqual(['ballot']);
  });

  test('waits for all live members, and counts each once, from the beginning of the round', () => {
    const me = new Player(four, 'w3');
    me.state = { ...me.state, begun: 5 };
    for (const worker of ['w0', 'w0', 'w1', 'w2', 'guest'])
      me.take({ type: 'held', worker, manifest: `of ${worker}` }, 12);
    expect(me.state.held).toHaveLength(4);
    expect(me.state.held[0]).toEqual({ worker: 'w0', manifest: 'of w0', delay: 7 });
    expect(me.state.closed).toBeNull();
    me.take({ type: 'held', worker: 'w3', manifest: 'last' }, 13);
    expect(me.state.closed).toEqual({ at: 13, empty: false });
  });
});
