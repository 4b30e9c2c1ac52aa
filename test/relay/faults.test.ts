import fc from 'fast-check';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Line, type SetTimer } from '../../relay/faults/adversary.ts';
import { createFaultPlan } from '../../relay/faults/plan.ts';
import type { FaultSettings } from '../../relay/faults/settings.ts';
import { parseFaults } from '../../relay/faults/settings.ts';
import { messageFrame } from '../../relay/messages.ts';
import { openReader } from '../support/raw-reader.ts';
import { eventOf, forgedTwin } from '../support/signers.ts';

/** A poll waits for an event: it may take as long as the test. */
const UNTIL = { timeout: 50_000, interval: 10 };
const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((thing) => thing.close()));
});

/** What happens to the first `count` deliveries of one connection. */
function fates(settings: FaultSettings, seed: number, connection = 0, count = 1000) {
  const plan = createFaultPlan(settings, seed, connection);
  return Array.from({ length: count }, () => plan());
}

const all: FaultSettings = {
  drop: 0.1,
  duplicate: 0.1,
  delay: { shape: 'uniform', minMs: 10, maxMs: 50 },
  reorder: 0.2,
  reorderMs: 100,
};

describe('plan', () => {
  test('the same seed gives the same fates, another seed or connection others', () => {
    expect(fates(all, 7)).toEqual(fates(all, 7));
    expect(fates(all, 7)).not.toEqual(fates(all, 8));
    expect(fates(all, 7)).not.toEqual(fates(all, 7, 1));
  });

  test('no settings leave every delivery alone', () => {
    expect(fates({}, 1, 0, 3)).toEqual([[0], [0], [0]]);
  });

  test('one fault does not move the draws of another', () => {
    const lost = (settings: FaultSettings) =>
      fates(settings, 3).map((copies) => copies.length === 0);
    expect(lost({ drop: 0.3 })).toEqual(lost({ drop: 0.3, duplicate: 0.5, reorder: 0.5 }));
  });

  test('shares and delays are as asked', () => {
    const lost = fates({ drop: 0.5 }, 1).filter((copies) => copies.length === 0).length;
    expect(lost).toBeGreaterThan(430);
    expect(lost).toBeLessThan(570);
    expect(fates({ duplicate: 1 }, 1, 0, 2)).toEqual([
      [0, 0],
      [0, 0],
    ]);
    for (const [ms] of fates({ delay: { shape: 'uniform', minMs: 10, maxMs: 50 } }, 1)) {
      expect(ms).toBeGreaterThanOrEqual(10);
      expect(ms).toBeLessThan(50);
    }
    const tail = fates({ delay: { shape: 'exponential', meanMs: 20, maxMs: 60 } }, 1).flat();
    expect(Math.max(...tail)).toBe(60);
    const mean = tail.reduce((sum, ms) => sum + ms, 0) / tail.length;
    expect(mean).toBeGreaterThan(15);
    expect(mean).toBeLessThan(22);
  });

  test('no settings and seeds give a negative or unbounded delay', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.integer(), share, share, share, (seed, drop, duplicate, reorder) => {
        for (const copies of fates({ ...all, drop, duplicate, reorder }, seed, 0, 20)) {
          expect(copies.length).toBeLessThanOrEqual(2);
          for (const ms of copies) expect(ms >= 10 && ms <= 150).toBe(true);
        }
      }),
    );
  });
});

/** Contents that one reader gets, in order, from a relay with these faults; the last event ends it. */
async function heard(faults: FaultSettings, seed: number, count: number): Promise<string[]> {
  const relay = await createRelay({ faults, seed });
  const [reader, author] = [await openReader(relay.url), await openReader(relay.url)];
  opened.push(relay, reader, author);
  reader.say('REQ', 'a', { kinds: [1000] });
  await reader.until((frame) => frame[0] === 'EOSE');
  for (let i = 0; i < count; i++) await author.publish(eventOf(`${i}`));
  const { deliveriesDropped, deliveriesDuplicated } = relay.stats();
  const expected = count - deliveriesDropped + deliveriesDuplicated;
  const events = () => reader.frames.filter((frame) => frame[0] === 'EVENT');
  if (expected > 0) await reader.until(() => events().length === expected);
  return events().map((frame) => (frame[2] as { content: string }).content);
}

describe('at a relay', () => {
  test('drops and repeats the same deliveries every time', async () => {
    const faults = { drop: 0.3, duplicate: 0.3 };
    const [once, again] = [await heard(faults, 5, 20), await heard(faults, 5, 20)];
    expect(once).toEqual(again);
    expect(new Set(once).size).toBeLessThan(20);
    expect(once.length).toBeGreaterThan(new Set(once).size);
  });

  test('held-back events arrive after later ones, none is lost', async () => {
    const order = (await heard({ reorder: 0.5, reorderMs: 60 }, 2, 20)).map(Number);
    expect(order).not.toEqual(order.toSorted((a, b) => a - b));
    expect(order.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  test('EOSE waits for stored events that are delayed', async () => {
    const delay = { shape: 'uniform', minMs: 20, maxMs: 40 } as const;
    const relay = await createRelay({ faults: { delay } });
    const reader = await openReader(relay.url);
    opened.push(relay, reader);
    await reader.publish(eventOf('slow'));
    reader.say('REQ', 'a', {});
    await reader.until((frame) => frame[0] === 'EOSE');
    expect(reader.frames.map((frame) => frame[0])).toEqual(['OK', 'EVENT', 'EOSE']);
  });

  test('swallowed events leave no trace, refused connections count down', async () => {
    const relay = await createRelay({ faults: { swallow: 1, refuseConnections: 1 } });
    opened.push(relay);
    await expect(openReader(relay.url)).rejects.toThrow('503');
    const reader = await openReader(relay.url);
    opened.push(reader);
    reader.say('EVENT', eventOf('lost'));
    reader.say('REQ', 'a', {});
    await reader.until((frame) => frame[0] === 'EOSE');
    expect(reader.frames).toEqual([['EOSE', 'a', ['finish']]]);
    expect(relay.stats()).toMatchObject({ eventsSwallowed: 1, connectionsRefused: 1 });
  });

  test('a connection ends after `disconnectAfter` frames', async () => {
    const relay = await createRelay({ faults: { disconnectAfter: 2 } });
    const reader = await openReader(relay.url);
    opened.push(relay, reader);
    await reader.publish(eventOf('first'));
    await reader.publish(eventOf('second'));
    expect(await reader.closed).toBe(1012);
  });
});

describe('a dishonest relay', () => {
  /** Frames of one REQ for two stored events, up to EOSE. */
  async function answer(faults: FaultSettings, seed = 0) {
    const relay = await createRelay({ faults, seed });
    const reader = await openReader(relay.url);
    opened.push(relay, reader);
    for (const content of ['a', 'b']) await reader.publish(eventOf(content));
    reader.say('REQ', 'r', {});
    await reader.until((frame) => frame[0] === 'EOSE');
    return { relay, frames: reader.frames.slice(2) };
  }

  test('sends a twin of the same id first, whose signature fails', async () => {
    const { frames, relay } = await answer({ forge: 1 });
    const events = frames.flatMap((frame) => (frame[0] === 'EVENT' ? [frame[2]] : []));
    const [a, b] = [eventOf('a'), eventOf('b')].sort((x, y) => (x.id < y.id ? -1 : 1));
    const lastDigit = (sig: string) => `${sig.slice(0, -1)}${sig.at(-1) === '0' ? '1' : '0'}`;
    const twin = (event: typeof a) => ({ ...event!, sig: lastDigit(event!.sig) });
    expect(events).toEqual([twin(a), a, twin(b), b]);
    expect(events[0]).not.toEqual(forgedTwin(a!));
    expect(relay.stats().twinsSent).toBe(2);
  });

  test('dates copies a year ahead', async () => {
    const { frames } = await answer({ postdate: 1 });
    const times = frames.flatMap((frame) =>
      frame[0] === 'EVENT' ? [(frame[2] as { created_at: number }).created_at] : [],
    );
    const [time, later] = [1_700_000_000, 1_731_536_000];
    expect(times).toEqual([later, time, later, time]);
  });

  test('says that nothing is stored', async () => {
    const { frames, relay } = await answer({ falseEose: 1 });
    expect(frames).toEqual([['EOSE', 'r', ['finish']]]);
    expect(relay.stats().eosesFalse).toBe(1);
  });

  test('accepts `throttle` events per minute', async () => {
    const relay = await createRelay({ faults: { throttle: 1 } });
    const reader = await openReader(relay.url);
    opened.push(relay, reader);
    expect((await reader.publish(eventOf('a')))[2]).toBe(true);
    expect((await reader.publish(eventOf('b')))[3]).toBe('rate-limited: slow down');
  });

  test('closes each request, asks for work it did not name, or names limits it does not have', async () => {
    const relay = await createRelay({ faults: { closeReqs: 1, work: 60, falseLimits: true } });
    const reader = await openReader(relay.url);
    opened.push(relay, reader);
    reader.say('REQ', 'r', {});
    expect((await reader.until(([verb]) => verb === 'CLOSED'))[1]).toBe('r');
    const [, , accepted, words] = await reader.publish(eventOf('lazy'));
    expect([accepted, words]).toEqual([false, expect.stringMatching(/^pow: .* less than 60$/)]);
    const document = await fetch(relay.url.replace('ws:', 'http:'), {
      headers: { Accept: 'application/nostr+json' },
    });
    expect(await document.json()).toMatchObject({
      limitation: { max_limit: 1, min_pow_difficulty: 60, max_content_length: 64 },
    });
  });

  test('says nothing at all, and keeps what it is sent', async () => {
    const relay = await createRelay({ faults: { silent: true } });
    const reader = await openReader(relay.url);
    opened.push(relay, reader);
    reader.say('EVENT', eventOf('a'));
    reader.say('REQ', 'r', {});
    await expect.poll(() => relay.stats().eventsStored, UNTIL).toBe(1);
    expect(reader.frames).toEqual([]);
  });

  test('forgets what it has kept for a while', async () => {
    const relay = await createRelay({ faults: { forgetAfter: 0.2 } });
    const reader = await openReader(relay.url);
    opened.push(relay, reader);
    await reader.publish(eventOf('a'));
    expect(relay.stats().eventsStored).toBe(1);
    await expect.poll(() => relay.stats().eventsStored, UNTIL).toBe(0);
  });

  test('a slow line delays all frames and keeps their order', async () => {
    const { frames } = await answer({ bandwidth: 8000 });
    expect(frames.map((frame) => frame[0])).toEqual(['EVENT', 'EVENT', 'EOSE']);
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const sent: unknown[] = [];
    const setTimer: SetTimer = (call, ms) => {
      const timer = setTimeout(call, ms);
      return () => clearTimeout(timer);
    };
    const line = new Line(8000, (frame) => sent.push(frame), setTimer);
    const queued = ['first', 'second'].map((words) => messageFrame(['NOTICE', words]));
    for (const frame of queued) line.push(frame);
    const [firstMs, secondMs] = queued.map(({ bytes }) => bytes / 8);
    vi.advanceTimersByTime(Math.floor(firstMs!) - 1);
    expect(sent).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(sent).toEqual(queued.slice(0, 1));
    vi.advanceTimersByTime(Math.ceil(secondMs!));
    expect(sent).toEqual(queued);
    expect(line.bytes).toBe(0);
  });

  test('lies the same way for the same seed', async () => {
    const kinds = async (seed: number) =>
      (await answer({ forge: 0.5, postdate: 0.5 }, seed)).frames;
    const runs = await Promise.all([1, 1, 2, 3, 4].map(kinds));
    expect(runs[0]).toEqual(runs[1]);
    expect(new Set(runs.map((run) => JSON.stringify(run))).size).toBeGreaterThan(1);
  });
});

test.each([
  [
    'drop=0.1, delay=20..80,oks',
    { drop: 0.1, delay: { shape: 'uniform', minMs: 20, maxMs: 80 }, oks: true },
  ],
  [
    'silent,falseLimits,work=12,forgetAfter=30,closeReqs=1',
    { silent: true, falseLimits: true, work: 12, forgetAfter: 30, closeReqs: 1 },
  ],
  [
    'delay=normal:50,10,drop=0.1',
    { drop: 0.1, delay: { shape: 'normal', meanMs: 50, deviationMs: 10 } },
  ],
  ['{"throttle": 3, "delay": {"shape": "exponential", "meanMs": 5, "maxMs": 9}}', undefined],
])('reads %s', (text, expected) => {
  expect(parseFaults(text)).toEqual(expected ?? JSON.parse(text));
});

test.each([
  ['drop=2', /^drop must be a share/],
  ['drop=', /^drop must be/],
  ['lag=1', /^"lag" is not a fault; choose from drop, /],
  ['toString=1', /is not a fault/],
  ['delay=normal:0,5', /^delay must be/],
  ['delay=80..20', /^delay must be LEAST\.\.MOST/],
  ['{"delay": {"shape": "square", "maxMs": 1}}', /^delay must be/],
  ['{', /^not a JSON object/],
])('does not take %s', (text, words) => {
  expect(parseFaults(text)).toMatch(words);
});
