import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { agreementOf, createView, fold, notify, secondsLeft } from '../../src/dashboard/view.ts';
import { addPoint, emptyCurve, pointsOf } from '../../src/dashboard/worker-view.ts';
import * as told from '../support/demo-events.ts';

const names = ['alice', 'bob'];
const viewOf = (run: readonly told.NamedRunEvent[], from = createView(names)) =>
  run.reduce((view, [name, event]) => fold(view, name, event), from);

describe('a notice', () => {
  const about = { type: 'notice', about: 'relays' } as const;
  const messages = (run: readonly told.NamedRunEvent[]) =>
    viewOf(run).notices.map(({ message }) => message);

  it('about the relays ends with the next one, or when a relay takes an update', () => {
    const away = ['alice', { ...about, message: 'relay offline' }] as const;
    const back = ['alice', { ...about, message: 'relay back' }] as const;
    const other = ['alice', { type: 'notice', message: 'a new key' }] as const;
    expect(messages([away, other])).toEqual(['relay offline', 'a new key']);
    expect(messages([away, other, back])).toEqual(['a new key', 'relay back']);
    expect(messages([away, ['bob', back[1]]])).toEqual(['relay offline', 'relay back']);
    const sent = told.wholeRun.find(
      ([name, { type }]) => name === 'alice' && type === 'published',
    )!;
    expect(messages([away, other, sent])).toEqual(['a new key']);
  });

  it('about progress of the start ends with it', () => {
    const slow = { type: 'notice', about: 'start', message: 'opening the trainer' } as const;
    expect(messages([['alice', slow]])).toEqual(['opening the trainer']);
    const hello = told.wholeRun.find(([name]) => name === 'alice')!;
    expect(hello[1].type).toBe('hello');
    expect(messages([['alice', slow], hello])).toEqual([]);
  });

  it('about a round ends with it', () => {
    const refused = { type: 'refused', round: 0, reason: 'base-mismatch', detail: 'x' } as const;
    const run: readonly told.NamedRunEvent[] = [['alice', refused]];
    expect(messages(run)).toEqual(['refused an event (base-mismatch): x']);
    expect(messages([...run, ['alice', told.round(0)]])).toEqual([]);
  });
});

describe('a worker', () => {
  it('starts, trains, sends, collects, finishes', () => {
    const seen = told.wholeRun
      .map((_, i) => viewOf(told.wholeRun.slice(0, i + 1)).workers[0]!)
      .map(({ phase, round }) => `${phase} ${round}`);
    expect(seen.filter((phase, i) => phase !== seen[i - 1])).toEqual([
      'starting 0',
      'training 0',
      'sending 0',
      'collecting 0',
      'starting 1',
      'training 1',
      'sending 1',
      'collecting 1',
      'starting 2',
      'done 2',
    ]);
  });

  it('shows what it waits for', () => {
    const waiting = { type: 'waiting', what: 'gradients', round: 1, have: 1, missing: [] } as const;
    const counted = viewOf([['bob', { ...waiting, want: 2 }]]);
    expect(counted.workers[1]).toMatchObject({ phase: 'collecting', round: 1, have: 1, want: 2 });
    const open = viewOf([['bob', waiting]], counted);
    expect(open.workers[1]).not.toHaveProperty('want');
    expect(open.workers[0]).toBe(counted.workers[0]);
  });

  it('has the newest loss and all of them', () => {
    const [alice] = viewOf(told.wholeRun).workers;
    expect(alice!.loss).toBeCloseTo(2.4);
    expect(pointsOf(alice!.losses).map((loss) => loss.toFixed(1))).toEqual([
      '3.6',
      '3.4',
      '2.6',
      '2.4',
    ]);
  });

  it('has the mean of a round where no progress was told', () => {
    const silent = told.wholeRun.filter(([, { type }]) => type !== 'progress');
    const [alice] = viewOf(silent).workers;
    expect(pointsOf(alice!.losses)).toEqual([3.5, 2.5]);
    expect(alice!.tokensPerSecond).toBe(20_480);
  });

  it('that failed says why, and starts anew when it says hello again', () => {
    const failed = viewOf([
      ['bob', told.hello(told.bob)],
      ['bob', { type: 'failed', code: 'relay/none', message: 'no relay is left' }],
    ]);
    expect(failed.workers[1]).toMatchObject({ phase: 'failed', failure: 'no relay is left' });
    expect(failed.notices).toEqual([{ name: 'bob', message: 'no relay is left' }]);
    const again = viewOf([['bob', told.hello(told.bob)]], failed);
    expect(again.workers[1]).toMatchObject({ phase: 'starting' });
    expect(again.workers[1]).not.toHaveProperty('failure');
  });

  it('nobody knows changes nothing', () => {
    const view = createView(names);
    expect(fold(view, 'mallory', told.done)).toBe(view);
  });
});

describe('a round', () => {
  const { finished } = viewOf(told.wholeRun);

  it('gathers what its workers say, whoever says it first', () => {
    expect(finished.map(({ index }) => index)).toEqual([0, 1]);
    expect(finished[1]).toMatchObject({
      validationLoss: 2.61,
      sample: 'QUEEN:\nWhat crown is this?',
      accepted: 2,
      refused: 0,
      eventBytes: 401_234,
    });
    expect(finished[1]!.trainingLoss).toBeCloseTo((2.5 + 2.3) / 2);
  });

  it('counts a report once, even when told twice', () => {
    const twice = viewOf([
      ['alice', told.round(0, { trainingLoss: 2 })],
      ['alice', told.round(0, { trainingLoss: 2 })],
      ['bob', told.round(0, { trainingLoss: 4 })],
    ]);
    expect(twice.finished[0]!.trainingLoss).toBe(3);
  });

  it('shows the fewest counted and the most refused', () => {
    const refused = [{ reason: 'bad-signature' }] as const;
    const view = viewOf([
      ['alice', told.round(0)],
      ['bob', told.round(0, { accepted: [told.bob], refused })],
    ]);
    expect(view.finished[0]).toMatchObject({ accepted: 1, refused: 1 });
  });
});

describe('agreement', () => {
  const of = (view: ReturnType<typeof viewOf>) => agreementOf(view, view.finished[0]!);
  const ours = ['alice', told.round(0)] as const;

  it('is open until everybody has finished, then the same', () => {
    const open = viewOf([ours]);
    expect(of(open)).toBe('open');
    expect(of(viewOf([['bob', told.round(0)]], open))).toBe('same');
  });

  it('sees states that differ', () => {
    expect(of(viewOf([ours, ['bob', told.round(0, { digest: told.digestOf(9) })]]))).toBe('differ');
  });

  it('sees what a worker says of peers outside the view', () => {
    const alone = viewOf([ours], createView(['alice']));
    expect(of(alone)).toBe('alone');
    const divergence = {
      type: 'divergence',
      round: 1,
      peer: told.bob,
      ours: told.digestOf(1),
      theirs: told.digestOf(9),
    } as const;
    const diverged = viewOf([['alice', divergence]], alone);
    expect(of(diverged)).toBe('differ');
    expect(diverged.notices[0]!.message).toContain('npub1k2et9v4');
  });

  it('does not wait for a worker that failed, nor call one worker agreement', () => {
    const failed = { type: 'failed', code: 'x', message: 'gone' } as const;
    expect(of(viewOf([ours, ['bob', failed]]))).toBe('open');
    const three = createView(['alice', 'bob', 'carol']);
    expect(of(viewOf([ours, ['bob', told.round(0)], ['carol', failed]], three))).toBe('same');
  });
});

describe('others on screens of their own', () => {
  const start = fold(createView(['me']), 'me', told.hello(told.alice));
  const hear = (view: typeof start, ...events: Parameters<typeof fold>[2][]) =>
    events.reduce((seen, event) => fold(seen, 'me', event), view);
  const peer = { type: 'peer', worker: told.bob, round: 0 } as const;

  it('are known by what a worker hears of them', () => {
    const training = hear(start, { ...peer, state: 'training' });
    expect(training.peers).toEqual([{ worker: told.bob, state: 'training', round: 0 }]);
    const sent = hear(training, { ...peer, state: 'sent', eventBytes: 57 });
    expect(sent.peers[0]).toMatchObject({ state: 'sent', sentBytes: 57 });
    // a heartbeat of the same round takes nothing back
    expect(hear(sent, { ...peer, state: 'training' }).peers[0]).toMatchObject({ state: 'sent' });
    const next = hear(sent, { ...peer, state: 'training', round: 1 });
    expect(next.peers[0]).toMatchObject({ state: 'training', round: 1, sentBytes: 57 });
    expect(hear(next, { ...peer, state: 'away', round: 1 }).peers[0]).toMatchObject({
      state: 'away',
    });
  });

  it('are no others where they have a row of their own', () => {
    const demo = hear(createView(['me']), { ...peer, state: 'training' }, told.hello(told.bob));
    expect(demo.peers).toEqual([]);
    expect(hear(demo, { ...peer, state: 'sent', eventBytes: 57 }).peers).toEqual([]);
  });

  it('disappear with the outcome that lists their leave, until they join again', () => {
    const holds = { ...peer, state: 'training', round: 1, digest: told.digestOf(1) } as const;
    const certified = {
      ...{ result: 'final' as const, attempt: 0, view: 0, root: told.digestOf(1), signers: [] },
      ...{ of: 1, rejected: [], faults: [], joined: [], left: [], late: [] },
    };
    const outcome = (
      index: number,
      change: { readonly joined?: string[]; readonly left?: string[] },
    ) => told.round(index, { certified: { ...certified, ...change } });
    const gone = hear(start, holds, outcome(0, { left: [told.bob] }), outcome(1, {}));
    expect(gone.peers).toEqual([]);
    expect(agreementOf(gone, gone.finished[1]!)).toBe('alone');
    const goodbye = { ...peer, state: 'away', round: 2 } as const;
    expect(hear(gone, goodbye).peers).toEqual([]);
    const back = hear(gone, outcome(2, { joined: [told.bob] }), { ...holds, round: 3 });
    expect(back.peers.map(({ worker }) => worker)).toEqual([told.bob]);
  });

  it('confirm a round, whichever of the two is heard of first', () => {
    const holds = { ...peer, state: 'training', round: 1, digest: told.digestOf(1) } as const;
    const of = (view: typeof start) => agreementOf(view, view.finished[0]!);
    expect(of(hear(start, told.round(0), holds))).toBe('same');
    expect(of(hear(start, holds, told.round(0)))).toBe('same');
    const earlier = { ...holds, round: 0, digest: told.digestOf(0) };
    expect(of(hear(start, earlier, told.round(0)))).toBe('open');
    expect(of(hear(start, { ...peer, state: 'training' }, told.round(0)))).toBe('alone');
  });
});

it('tells how long the rest takes, from the newest rounds and the steps of this one', () => {
  const start = viewOf([
    ['alice', { ...told.hello(told.alice), rounds: 10 } as Parameters<typeof fold>[2]],
    ['bob', { ...told.hello(told.bob), rounds: 10 } as Parameters<typeof fold>[2]],
  ]);
  expect(secondsLeft(start)).toBeUndefined();
  const played = viewOf(
    [0, 1, 2, 3].flatMap((index): readonly told.NamedRunEvent[] =>
      names.map((name) => [name, told.round(index, { seconds: index === 0 ? 100 : 20 })]),
    ),
    start,
  );
  expect(secondsLeft(played)).toBe(6 * 20);
  const training = viewOf(
    [
      ['alice', told.progress(4, 75, 2)],
      ['bob', told.progress(4, 50, 2)],
    ],
    played,
  );
  expect(secondsLeft(training)).toBe(5.5 * 20);
});

it('keeps the newest notices only', () => {
  let view = createView(names);
  for (let i = 0; i < 30; i++) view = notify(view, '', `notice ${i}`);
  expect(view.notices).toHaveLength(20);
  expect(view.notices.at(-1)!.message).toBe('notice 29');
});

it('a curve keeps its mean however long it gets, in few points', () => {
  const values = fc.array(fc.integer({ min: -100, max: 100 }), { minLength: 1, maxLength: 600 });
  fc.assert(
    fc.property(values, (list) => {
      const curve = list.reduce(addPoint, emptyCurve);
      const { points, stride, sum } = curve;
      expect(pointsOf(curve).length).toBeLessThanOrEqual(128);
      const total = points.reduce((all, point) => all + point * stride, sum);
      expect(total).toBeCloseTo(list.reduce((all, value) => all + value, 0));
    }),
  );
});
