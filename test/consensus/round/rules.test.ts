import fc from 'fast-check';
import { formatEntry, parseRoundState } from 'nostrain/certified/parts';
import { describe, expect, test } from 'vitest';
import { type Branch, isBetter } from '../../../src/consensus/round/fork-choice.ts';
import { decideClosing } from '../../../src/consensus/round/machine.ts';
import { graceOf, latestView, viewAfter, viewLength } from '../../../src/consensus/round/timing.ts';
import { drawFor, keysOf, outcomeBy, PARENT, RUN, timing } from './model-check/setup.ts';
import { friends, Player, proposalBy, TestNetwork, voteBy } from './test-network.ts';

const four = friends(4);

describe('T-09: when to close', () => {
  const closing = (held: readonly string[], now: number, graceMs = 2000) => {
    const me = new Player(four, 'w0', { graceMinMs: graceMs, graceMaxMs: graceMs });
    for (const worker of held) me.take({ type: 'held', worker, manifest: `m ${worker}` }, 0);
    return decideClosing(me.context, { ...me.state, closed: null }, now);
  };

  test('before the grace is over: wait, with what is left of it', () => {
    expect(closing([], 500)).toEqual({ type: 'wait', remainingMs: 1500 });
    expect(closing(['w0', 'w1', 'w2'], 1999)).toEqual({ type: 'wait', remainingMs: 1 });
  });

  test('after it: close with what is there; with nothing, void will do', () => {
    expect(closing(['w1'], 2000)).toEqual({ type: 'close', empty: false });
    expect(closing([], 2000)).toEqual({ type: 'close', empty: true });
  });

  test('a grace of nothing decides at once, and so does having everything', () => {
    expect(closing([], 0, 0)).toEqual({ type: 'close', empty: true });
    expect(closing(['w0', 'w1', 'w2', 'w3'], 0)).toEqual({ type: 'close', empty: false });
  });

  test('the grace is learned from arrivals, within its bounds', () => {
    const bounds = { ...timing, graceMinMs: 100, graceMaxMs: 1000, deadlineC: 3 };
    expect(graceOf([], bounds)).toBe(1000);
    const many = [100, 150, 150, 200, 250, 250, 300, 9000];
    expect(graceOf(many, bounds)).toBe(200 + 3 * 50);
    expect(graceOf([1, 2, 3], bounds)).toBe(100);
    expect(graceOf([5000], bounds)).toBe(1000);
  });

  test('the grace is wide while few arrivals are known, and never ends where most arrive alike', () => {
    const bounds = { ...timing, graceMinMs: 100, graceMaxMs: 90_000, deadlineC: 4 };
    const graceAfter = (count: number) => graceOf(new Array<number>(count).fill(20_000), bounds);
    expect(graceAfter(1)).toBe(3 * 20_000);
    expect([2, 3, 5, 7].map(graceAfter)).toEqual(
      [...[2, 3, 5, 7].map(graceAfter)].sort((a, b) => b - a),
    );
    expect(graceAfter(8)).toBe(1.5 * 20_000);
    expect(graceAfter(100)).toBe(1.5 * 20_000);
  });

  test('a manifest that comes after closing is not on time', () => {
    const me = new Player(four, 'w0');
    me.take({ type: 'tick' }, 80);
    me.take({ type: 'held', worker: 'w1', manifest: 'late' }, 81);
    expect(me.state.held).toEqual([]);
  });
});

describe('views', () => {
  test('double three times and then keep their length', () => {
    expect([0, 1, 2, 3, 4, 9].map((view) => viewLength(100, view))).toEqual([
      100, 200, 400, 800, 800, 800,
    ]);
    fc.assert(
      fc.property(fc.nat(500), (view) => {
        let start = 0;
        for (let before = 0; before < view; before++) start += viewLength(100, before);
        expect(viewAfter(100, start)).toBe(view);
        expect(viewAfter(100, start - 1)).toBe(Math.max(0, view - 1));
      }),
    );
  });

  test('go on while a machine is away', () => {
    const me = new Player(four, 'w3');
    me.take({ type: 'tick' }, 80);
    me.take({ type: 'tick' }, 80 + 5000);
    expect(me.state.view).toBe(viewAfter(100, 5000));
    expect(me.state.viewEnds).toBeGreaterThan(5080);
  });

  test('more than K - k members ahead are followed at once, fewer are not', () => {
    const me = new Player(four, 'w3');
    me.take({ type: 'tick' }, 80);
    const now = 129;
    expect(latestView(me.context, now)).toBe(1);
    me.hear(voteBy(four, 'w0', 'prepare', 'X', { view: 1 }), now);
    expect(me.state.view).toBe(0);
    me.hear(voteBy(four, 'w1', 'prepare', 'X', { view: 1 }), now);
    expect(me.state.view).toBe(1);
  });

  test('in a late round one member far ahead is followed, so that no member stays ahead for ever', () => {
    const me = new Player(four, 'w3');
    me.take({ type: 'tick' }, 80_000);
    const ahead = voteBy(four, 'w0', 'prepare', 'X', { view: 90 });
    me.hear(ahead, 80_000);
    expect(me.state.view).toBe(0);
    for (const at of [80_100, 80_300, 80_700]) me.take({ type: 'tick' }, at);
    expect(me.state.view).toBe(3);
    me.take({ type: 'tick' }, 81_500);
    expect(me.state.view).toBe(90);
  });
});

describe('a view without a proposal', () => {
  /** Time for contributions was up at 80, in a round whose outcome before came so long before. */
  function closedAfter(since: number) {
    const me = new Player(four, 'w3');
    Object.assign(me, { context: { ...me.context, since } });
    me.take({ type: 'held', worker: 'w1', manifest: 'm' }, 1);
    me.take({ type: 'tick' }, 80);
    return me;
  }

  test('is over after half of its time', () => {
    const me = closedAfter(-1000);
    expect(me.state).toMatchObject({ view: 0, wakeAt: 130 });
    me.take({ type: 'tick' }, 129);
    expect(me.state.view).toBe(0);
    me.take({ type: 'tick' }, 130);
    expect(me.state).toMatchObject({ view: 1, viewEnds: 330, wakeAt: 230 });
  });

  test('has all of its time once there is a proposal', () => {
    const me = closedAfter(-1000);
    me.hear(proposalBy(four, 'w0', 'X'), 129);
    expect(me.state).toMatchObject({ view: 0, wakeAt: 180 });
    me.take({ type: 'tick' }, 180);
    expect(me.state).toMatchObject({ view: 1, viewEnds: 380 });
  });

  test('does not end before all members accept votes of the next one', () => {
    const me = closedAfter(60);
    expect(me.state.wakeAt).toBe(160);
    me.take({ type: 'tick' }, 160);
    expect(me.state.view).toBe(1);
    const { context } = me;
    expect(latestView({ ...context, timing: { ...context.timing, skewMs: 0 } }, 160)).toBe(1);
  });

  test('has all of its time where a void outcome would be acceptable in the next one', () => {
    const me = closedAfter(-10_000);
    for (const at of [130, 230, 430]) me.take({ type: 'tick' }, at);
    expect(me.state).toMatchObject({ view: 3, viewEnds: 430 + 800, wakeAt: 430 + 800 });
  });

  test('has its full length for a member that was away', () => {
    const me = closedAfter(-10_000);
    me.take({ type: 'tick' }, 80 + 100);
    expect(me.state).toMatchObject({ view: 1, viewEnds: 80 + 300 });
  });
});

describe('void', () => {
  const empty = { digest: 'V', valid: true, acceptable: true, unlisted: [] };
  const proposal = (view: number, key: string) =>
    proposalBy(four, key, 'V', { view, outcome: outcomeBy(key, 'void') });

  test('is not prepared early by a member with contributions, but is from voidView on', () => {
    const me = new Player(four, 'w3');
    me.take({ type: 'held', worker: 'w1', manifest: 'm' }, 1);
    me.take({ type: 'checked', check: empty }, 1);
    me.take({ type: 'tick' }, 80);
    me.hear(proposal(0, 'w0'), 90);
    expect(me.all('send')).toEqual([]);
    me.take({ type: 'tick' }, 80 + 1500);
    expect(me.state.view).toBe(4);
    me.hear(proposal(4, 'w0'), 1600);
    const sent = me.all('send').map(({ message }) => message);
    expect(sent).toMatchObject([{ step: 'prepare', view: 4, digest: 'V' }]);
  });

  test('is prepared at once by a member without contributions', () => {
    const me = new Player(four, 'w3');
    me.take({ type: 'checked', check: empty }, 1);
    me.take({ type: 'tick' }, 80);
    me.hear(proposal(0, 'w0'), 90);
    expect(me.all('send')).toHaveLength(1);
  });
});

test('a locked member states in its prepare where the outcome was prepared, even if the proposer does not', () => {
  const me = new Player(four, 'w3');
  const check = { digest: 'Y', valid: true, acceptable: true, unlisted: [] };
  me.take({ type: 'checked', check }, 1);
  me.take({ type: 'tick' }, 80);
  me.hear(proposalBy(four, 'w0', 'Y'), 90);
  for (const key of ['w1', 'w2']) me.hear(voteBy(four, key, 'prepare', 'Y'), 90);
  expect(me.state.lock).toMatchObject({ view: 0, digest: 'Y' });
  me.take({ type: 'tick' }, 80 + 1500);
  me.hear({ ...proposalBy(four, 'w0', 'Y', { view: 4 }), justify: -1 }, 1600);
  const sent = me.all('send').map(({ message }) => message);
  expect(sent.at(-1)).toMatchObject({ step: 'prepare', view: 4, justify: 0 });
});

describe('memory', () => {
  test('what is signed is on disk first, and goes out again after a restart, unchanged', () => {
    const network = new TestNetwork(four, ['w0', 'w1']);
    network.waitUntil(150);
    const player = network.players.get('w1')!;
    const at = player.effects.findIndex(({ type }) => type === 'send');
    expect(player.effects[at - 1]).toEqual({ type: 'persist' });
    const [sent] = player.all('send');
    const back = new Player(four, 'w1');
    back.state = parseRoundState(formatEntry(player.state));
    expect(back.state).toEqual(player.state);
    expect(back.take({ type: 'restart' }, 150)).toContainEqual(sent);
    expect(back.take({ type: 'tick' }, 151).filter(({ type }) => type === 'send')).toEqual([]);
  });

  test('a member that lost its disk votes only from the next recovery epoch on', () => {
    const setup = friends(4, 'bft', 3);
    const me = new Player(setup, 'w1', {}, true);
    me.take({ type: 'tick' }, 80);
    me.take(
      {
        type: 'checked',
        check: { digest: 'V', valid: true, acceptable: true, unlisted: [] },
      },
      81,
    );
    me.hear(proposalBy(setup, 'w0', 'V', { outcome: outcomeBy('w0', 'void') }), 90);
    expect(me.all('send')).toEqual([]);
    me.take({ type: 'tick' }, 80 + 4000);
    expect(me.all('send').map(({ message }) => message)).toMatchObject([
      { type: 'ballot', attempt: 1 },
    ]);
  });
});

describe('recovery', () => {
  test('a recovery epoch is not left before enough view-change votes began it', () => {
    const me = new Player(friends(4, 'bft', 3), 'w0');
    for (let at = 80; at < 40_000; at += 100) me.take({ type: 'tick' }, at);
    expect(me.state.attempt).toBe(1);
    const lists = me.all('stalled').filter(({ attempt }) => attempt === 1);
    expect(lists[0]?.missing).toEqual(['w0', 'w1', 'w2', 'w3']);
  });

  test('a proposal under the name of a committee that its ballots do not make stands for nothing', () => {
    const setup = friends(4, 'bft', 3);
    const keys = keysOf(setup);
    const { ctx } = drawFor(setup)(1, keys);
    const me = new Player(setup, 'w1');
    me.take({ type: 'tick' }, 100);
    me.take({ type: 'tick' }, 5000);
    const ballots = keys.map((key) => {
      const said = { type: 'ballot' as const, run: RUN, round: 0, attempt: 1, parent: PARENT };
      return { ...said, prepared: null, id: `ballot ${key}`, key };
    });
    for (const ballot of ballots) me.hear(ballot, 5001);
    const ids = ballots.map(({ id }) => id).sort();
    const outcome = outcomeBy('w2', 'final', ids);
    const at = { attempt: 1, ctx, outcome };
    const genuine = proposalBy(setup, 'w2', 'X', { ...at, ballots: ids });
    const mislabeled = proposalBy(setup, 'w3', 'X', { ...at, ballots: ids.slice(0, 3) });
    me.hear(mislabeled, 5002);
    me.hear(genuine, 5002);
    const check = { digest: 'X', valid: true, acceptable: true, unlisted: [] };
    me.take({ type: 'checked', check }, 5003);
    me.hear(voteBy(setup, 'w0', 'prepare', 'X', { attempt: 1, ctx }), 5004);
    me.hear(voteBy(setup, 'w1', 'prepare', 'X', { attempt: 1, ctx }), 5004);
    expect(me.state.lock).toMatchObject({ digest: 'X', attempt: 1, proposal: genuine.id });
  });

  test('a round that two of three cannot decide is decided by them in a recovery', () => {
    const setup = friends(3, 'bft', 2);
    const network = new TestNetwork(setup, ['w0', 'w1']);
    network.waitUntil(3000);
    expect(network.decided()).toEqual([undefined, undefined]);
    network.waitUntil(20_000);
    expect(new Set(network.decided()).size).toBe(1);
    const [finalized] = network.players.get('w0')!.all('finalized');
    expect(finalized?.certificate.attempt).toBe(1);
  });
});

describe('fork choice', () => {
  const roster = ['a', 'b', 'c', 'd', 'e'];
  const branch: Branch = {
    committed: ['a', 'b'],
    ...{ attempt: 1, finals: 1, length: 2, digest: '5' },
  };

  test.each([
    [
      'more of the roster',
      { committed: ['a', 'b', 'c'], attempt: 9, finals: 0, length: 1, digest: '9' },
      true,
    ],
    [
      'as many of the roster, and keys that joined since',
      { committed: ['a', 'b', 'x', 'y'], attempt: 9, finals: 0, length: 1 },
      true,
    ],
    ['fewer of the roster, and keys that joined since', { committed: ['a', 'x', 'y', 'z'] }, false],
    ['more void rounds and fewer real ones', { finals: 0, length: 22 }, false],
    ['more real rounds', { finals: 2, length: 2, digest: '9' }, true],
    ['one key many times', { committed: ['a', 'a', 'a', 'a'] }, false],
    [
      'the same keys many times and a lower digest',
      { committed: ['a', 'b', 'a'], digest: '4' },
      true,
    ],
    ['a lower attempt', { attempt: 0, length: 1, digest: '9' }, true],
    ['a longer one', { length: 3, digest: '9' }, true],
    ['a lower digest', { digest: '4' }, true],
    ['the same', {}, false],
  ])('%s', (_, other, isIt) => {
    const changed = { ...branch, ...other };
    expect(isBetter(roster, changed, branch)).toBe(isIt);
    expect(isBetter(roster, branch, changed)).toBe(!isIt && Object.keys(other).length > 0);
  });

  test('all workers that see the same branches end on the same one', () => {
    const branches = fc.record({
      committed: fc.subarray(roster),
      attempt: fc.nat(2),
      finals: fc.nat(2),
      length: fc.integer({ min: 1, max: 3 }),
      digest: fc.constantFrom('1', '2', '3', '4', '5', '6'),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(branches, { minLength: 2, selector: ({ digest }) => digest }),
        (all) => {
          const best = (list: readonly Branch[]) =>
            list.reduce((a, b) => (isBetter(roster, b, a) ? b : a));
          expect(best(all)).toEqual(best([...all].reverse()));
        },
      ),
    );
  });
});
