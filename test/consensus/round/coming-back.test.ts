/**
 * A worker that comes back in the middle of a round: when it stops waiting for contributions, and which view it is in
 * then.
 */

import { beginRound, type RoundContext } from 'nostrain/consensus';
import { describe, expect, test } from 'vitest';
import {
  beginLate,
  comeBack,
  delayOf,
  delaysIn,
  latestEpoch,
  latestView,
  viewStart,
} from '../../../src/consensus/round/timing.ts';
import { friends, Player, voteBy } from './test-network.ts';

const eight = friends(8);
const times = { graceMinMs: 1000, graceMaxMs: 10_000, viewMs: 2000, voidView: 4 };
const SINCE = 100_000;
/** Other workers took about 10 s in earlier rounds, so the grace is its maximum of 10 s. */
const delays = [10_000, 10_000, 10_000];

function back(at: number, held: readonly string[]) {
  const player = new Player(eight, 'w7', times);
  const context: RoundContext = { ...player.context, since: SINCE, delays };
  Object.assign(player, { context, state: beginRound(context, comeBack(context, SINCE, at)) });
  for (const worker of held) player.take({ type: 'held', worker, manifest: `m ${worker}` }, at);
  return player;
}

describe('a worker that comes back in the middle of a round', () => {
  test('closes it together with the workers that were not away', () => {
    const me = back(SINCE + 4000, ['w0', 'w1', 'w2']);
    me.take({ type: 'tick' }, SINCE + 9999);
    expect(me.state.closed).toBeNull();
    me.take({ type: 'tick' }, SINCE + 10_000);
    expect(me.state).toMatchObject({ closed: { at: SINCE + 10_000 }, view: 0 });
  });

  test('is in their view, after half a view in which it hears what there is', () => {
    const now = SINCE + 10_000 + viewStart(2000, 2) + 500;
    const me = back(now, ['w0', 'w1', 'w2']);
    me.take({ type: 'tick' }, now + 999);
    expect(me.state.closed).toBeNull();
    me.take({ type: 'tick' }, now + 1000);
    expect(me.state).toMatchObject({ closed: { empty: false }, view: 2 });
    expect(me.state.viewEnds).toBe(SINCE + 10_000 + viewStart(2000, 3));
  });

  test('hears what there is before it follows others into their view', () => {
    const now = SINCE + 11_000;
    const me = back(now, []);
    for (const key of ['w0', 'w1', 'w2']) me.hear(voteBy(eight, key, 'prepare', 'X'), now);
    expect(me.state.closed).toBeNull();
    me.take({ type: 'held', worker: 'w3', manifest: 'm w3' }, now + 10);
    me.take({ type: 'tick' }, now + 1000);
    expect(me.state.closed).not.toBeNull();
    expect(me.state.held.map(({ worker }) => worker)).toEqual(['w3']);
  });

  test('begins it anew if no other worker continues it: all were away', () => {
    const me = back(SINCE + 8000, ['w0', 'w1']);
    me.take({ type: 'tick' }, SINCE + 10_000);
    expect(me.state).toMatchObject({ closed: null, begun: SINCE + 8000, back: null });
    me.take({ type: 'tick' }, SINCE + 18_000);
    expect(me.state.closed).toEqual({ at: SINCE + 18_000, empty: false });
  });

  test('begins it anew where it is older than any view that may count contributions', () => {
    const now = SINCE + 10_000 + viewStart(2000, 4);
    expect(back(now - 1, []).state).toMatchObject({ begun: SINCE, back: now - 1 });
    expect(back(now, []).state).toMatchObject({ begun: now, back: now });
  });

  test('requests a tick after listening, so that it follows the others at once', () => {
    const now = SINCE + 11_000;
    const me = back(now, []);
    const timing = { ...me.context.timing, graceMaxMs: 60_000 };
    Object.assign(me, { context: { ...me.context, timing, delays: [] } });
    for (const key of ['w0', 'w1', 'w2']) me.hear(voteBy(eight, key, 'prepare', 'X'), now);
    expect(me.state.wakeAt).toBe(now + 1000);
    me.take({ type: 'tick' }, now + 1000);
    expect(me.state).toMatchObject({ view: 0, closed: { at: now + 1000 } });
  });

  test('goes by the dates of contributions that it finds, not by when it found them', () => {
    const heard = (at: number, now: number, signed: number) => {
      const { state, context } = back(at, []);
      return delayOf(state, context, { now, signed });
    };
    expect(heard(SINCE + 9000, SINCE + 9100, SINCE + 7000)).toBe(7000);
    expect(heard(SINCE + 9000, SINCE + 9100, SINCE + 99_000)).toBe(9100);
    expect(heard(SINCE + 9000, SINCE + 9100, 0)).toBe(0);
    const late = SINCE + 10_000 + viewStart(2000, 4);
    expect(heard(late, late + 999, late - 5000)).toBeUndefined();
    expect(heard(late, late + 1000, late)).toBe(1000);
  });

  test('learns times as others have them where it began later than they did, by itself', () => {
    const heard = new Map([
      ['a', 2000],
      ['b', 3000],
      ['me', 10_000],
      ['c', 4000],
    ]);
    expect(delaysIn(heard, { begun: 5, back: null }, 'me')).toEqual([2000, 3000, 10_000, 4000]);
    expect(delaysIn(heard, { begun: 5, back: 7 }, 'me')).toEqual([2000, 3000, 10_000, 4000]);
    expect(delaysIn(heard, { begun: 5, back: 5 }, 'me')).toEqual([9000, 10_000, 17_000, 11_000]);
    expect(delaysIn(heard, { begun: 5, back: 5 }, 'nobody')).toEqual([]);
  });
});

describe('a worker that still trained when the round before was decided', () => {
  const { context } = back(SINCE, []);
  const begins = (at: number) => beginLate(context, SINCE, at);

  test('counts from then on', () => {
    expect(begins(SINCE + 1000)).toEqual({ begun: SINCE, back: null });
    // by dates of commits, which are whole seconds
    expect(begins(SINCE - 300)).toEqual({ begun: SINCE - 300, back: null });
  });

  test('and looks at what it missed where it is late', () => {
    expect(begins(SINCE + 1001)).toEqual({ begun: SINCE, back: SINCE + 1001 });
  });
});

test('how far others can be counts from the outcome before, and from the clock that is ahead the most', () => {
  const { context: base } = new Player(eight, 'w7', { ...times, recoveryMs: 5000, skewMs: 40 });
  const context = { ...base, since: SINCE };
  const begins = SINCE + viewStart(times.viewMs, 1) - 40;
  expect([begins - 1, begins].map((now) => latestView(context, now))).toEqual([0, 1]);
  expect([4959, 4960, 9960].map((ms) => latestEpoch(context, SINCE + ms))).toEqual([1, 2, 3]);
  expect(latestEpoch(context, SINCE - 9000)).toBe(1);
  const without = { ...context, timing: { ...context.timing, recoveryMs: 0 } };
  expect(latestEpoch(without, SINCE + 9960)).toBe(0);
});

test('without an outcome before, or with one of the future, a worker that comes back begins anew', () => {
  const { context } = new Player(eight, 'w7', times);
  for (const decided of [0, -5, 101, 100])
    expect(comeBack(context, decided, 100)).toEqual({ begun: 100, back: 100 });
  expect(comeBack(context, 99, 100)).toEqual({ begun: 99, back: 100 });
  expect(delayOf({ begun: 30, back: null }, context, { now: 100, signed: 7 })).toBe(70);
});
