/** When a member enters a view or a recovery epoch, what it does at the end of a failed one, and which votes it lists. */
import type { Message, Signed, ViewChangeVote } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import type { PreparedClaim } from '../../../src/run/vote.ts';
import { PARENT, RUN } from './model-check/setup.ts';
import { friends, Player, proposalBy, voteBy } from './test-network.ts';

const four = friends(4, 'bft', 3);
const X0 = proposalBy(four, 'w0', 'X');
const proof = [X0, ...['w2', 'w1'].map((key) => voteBy(four, key, 'prepare', 'X'))];
const proofIds = proof.map(({ id }) => id).sort();

const ballot = (
  key: string,
  attempt = 1,
  id = `${key} in ${attempt}`,
  prepared: PreparedClaim | null = null,
): Signed<ViewChangeVote> => ({
  ...{ type: 'ballot', run: RUN, round: 0, parent: PARENT },
  ...{ attempt, prepared, id, key },
});

/** A member of a round whose outcome before came long ago; it closes at 80, and epoch 1 follows at 4080. */
function player(me: string, setup = four): Player {
  const made = new Player(setup, me);
  Object.assign(made, { context: { ...made.context, since: -20_000 } });
  made.take({ type: 'held', worker: 'w1', manifest: 'm' }, 1);
  return made;
}
const wake = (me: Player, ...times: readonly number[]): void => {
  for (const at of times) me.take({ type: 'tick' }, at);
};
const hear = (me: Player, now: number, ...messages: readonly Signed<Message>[]): Player => {
  for (const message of messages) me.hear(message, now);
  return me;
};
const epochsSigned = (me: Player) =>
  me.all('send').flatMap(({ message }) => (message.type === 'ballot' ? [message.attempt] : []));
const check = (acceptable: boolean) => ({
  ...({ type: 'checked', check: { digest: 'X', valid: true, acceptable, unlisted: [] } } as const),
});

describe('a recovery epoch', () => {
  test('begins after its time, or once the members in it and this one are enough', () => {
    const me = player('w3');
    wake(me, 80);
    hear(me, 90, ballot('w0'));
    expect(me.state.attempt).toBe(0);
    hear(me, 91, ballot('w1'));
    expect(me.state.attempt).toBe(1);
    // from then on a single member is followed
    hear(me, 92, ballot('w0', 3));
    expect(me.state.attempt).toBe(3);
    expect(epochsSigned(me)).toEqual([1, 3]);
    const alone = player('w3');
    wake(alone, 80, 4079);
    expect(alone.state.attempt).toBe(0);
    wake(alone, 4080);
    expect([alone.state.attempt, ...epochsSigned(alone)]).toEqual([1, 1]);
  });

  test('is left after its time only if enough members were in it', () => {
    const me = player('w3');
    wake(me, 80);
    hear(me, 90, ballot('w0'), ballot('w1'));
    wake(me, 9000);
    expect(me.state.attempt).toBe(1);
    hear(me, 9001, ballot('w3'));
    expect(me.state.attempt).toBe(2);
  });

  test('does not begin for a member that still waits for contributions, or knows the outcome', () => {
    const open = hear(player('w3'), 10, ballot('w0'), ballot('w1'), ballot('w2'));
    const decided = player('w3');
    wake(decided, 80);
    const commits = ['w0', 'w1', 'w2'].map((key) => voteBy(four, key, 'commit', 'X'));
    hear(decided, 85, X0, ...commits, ballot('w0'), ballot('w1'));
    wake(decided, 9000);
    const without = player('w3', friends(4));
    wake(without, 80);
    hear(without, 90, ballot('w0'), ballot('w1'), ballot('w2'));
    for (const me of [open, decided, without]) {
      expect(me.state.attempt).toBe(0);
      expect(epochsSigned(me)).toEqual([]);
    }
  });
});

describe('the proposer of an epoch', () => {
  /** The lists it has asked to compose an outcome for: after this many milliseconds of a view of 100. */
  function composed(votes: readonly Signed<Message>[], ...waits: readonly number[]) {
    const me = player('w2');
    wake(me, 80, 4080);
    hear(me, 4080, ...votes);
    wake(me, ...waits.map((ms) => 4080 + ms));
    return me
      .all('compose')
      .filter(({ attempt }) => attempt === 1)
      .map(({ ballots }) => ballots);
  }

  test('lists one vote of each member, by id, as soon as all have voted', () => {
    const all = [
      ballot('w3', 1, 'd'),
      ballot('w1', 1, 'c'),
      ballot('w0', 1, 'b'),
      ballot('w2', 1, 'e'),
    ];
    expect(composed(all)).toEqual([['b', 'c', 'd', 'e']]);
    const twice = [
      ballot('w3', 1, 'z'),
      ballot('w1', 1, 'B'),
      ballot('w3', 1, 'a'),
      ...all.slice(1),
    ];
    expect(composed(twice)).toEqual([['B', 'a', 'b', 'e']]);
  });

  test('waits for the others for half a view, and needs enough votes', () => {
    const three = [ballot('w3'), ballot('w1'), ballot('w0')];
    expect(composed(three, 49)).toEqual([]);
    expect(composed(three, 50)).toEqual([['w0 in 1', 'w1 in 1', 'w3 in 1']]);
    expect(composed(three.slice(1), 50, 99)).toEqual([]);
  });

  test('lists no vote whose claim is not proven', () => {
    const claim = { attempt: 0, view: 0, digest: 'X', proposal: X0.id, prepares: proofIds };
    const unproven = ballot('w3', 1, 'unproven', claim);
    const votes = [ballot('w0'), ballot('w1'), ballot('w2')];
    expect(composed([unproven, ...votes], 50)).toEqual([['w0 in 1', 'w1 in 1', 'w2 in 1']]);
    expect(composed([unproven, ...votes.slice(1)], 50)).toEqual([]);
  });
});

describe('at the end of a failed view a member', () => {
  const resent = (me: Player) => me.all('resend').map(({ ids }) => [...ids].sort());

  test('asks for the round, and sends again what it is locked on with the proof', () => {
    const me = player('w3');
    wake(me, 80);
    hear(me, 85, ...proof);
    wake(me, 180);
    expect(me.all('want')).toContainEqual({ type: 'want', what: 'round' });
    expect(resent(me)).toEqual([]);
    const locked = player('w3');
    locked.take(check(true), 3);
    wake(locked, 80);
    hear(locked, 85, ...proof);
    wake(locked, 180);
    expect(locked.state.lock?.digest).toBe('X');
    expect(resent(locked)).toEqual([proofIds]);
  });

  test('sends its view-change vote of the epoch again, with the proof of its claim', () => {
    const me = player('w3');
    wake(me, 80);
    hear(me, 85, ...proof);
    wake(me, 4080);
    const sent = me.all('send').at(-1)!.message as ViewChangeVote;
    expect(sent.prepared).toMatchObject({ digest: 'X', view: 0 });
    hear(me, 4081, { ...sent, id: 'mine', key: 'w3' }, ballot('w0'));
    wake(me, 4180);
    expect(resent(me).at(-1)).toEqual(['mine', ...proofIds].sort());
    const { attempt, missing } = me.all('stalled').at(-1)!;
    expect([attempt, ...missing]).toEqual([1, 'w1', 'w2']);
  });

  test('checks again what came too late, and nothing else', () => {
    for (const acceptable of [true, false]) {
      const me = player('w3');
      wake(me, 80);
      hear(me, 85, X0);
      me.take(check(acceptable), 86);
      wake(me, 180);
      expect(me.state.view).toBe(1);
      expect(me.state.checks).toHaveLength(acceptable ? 1 : 0);
    }
  });
});

describe('a view', () => {
  test('is the second latest of the others, in which each counts once and this member not at all', () => {
    const inView = (key: string, view: number) => voteBy(four, key, 'prepare', 'X', { view });
    const viewAfter = (...votes: readonly Signed<Message>[]) => {
      const me = player('w3');
      wake(me, 80);
      return hear(me, 85, ...votes).state.view;
    };
    expect(viewAfter(inView('w0', 1), inView('w1', 3))).toBe(1);
    expect(viewAfter(inView('w0', 3), inView('w1', 2), inView('w2', 1))).toBe(2);
    expect(viewAfter(inView('w0', 3), inView('w0', 1), inView('w1', 2))).toBe(2);
    expect(viewAfter(inView('w3', 2), inView('w1', 2))).toBe(0);
  });

  test('ends early only without a proposal of its own', () => {
    const wakeAfter = (...votes: readonly Signed<Message>[]) => {
      const me = player('w3');
      wake(me, 80);
      return hear(me, 85, ...votes).state.wakeAt;
    };
    expect(wakeAfter(X0)).toBe(180);
    expect(wakeAfter(voteBy(four, 'w0', 'prepare', 'X'))).toBe(130);
    expect(wakeAfter(proposalBy(four, 'w1', 'X', { view: 1 }))).toBe(130);
  });

  test('in which an outcome is composed asks for it once', () => {
    const me = player('w0');
    wake(me, 80, 81, 82, 129);
    expect(me.all('compose')).toHaveLength(1);
  });
});
