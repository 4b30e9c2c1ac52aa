import { createSigner } from 'nostrain/network';
import { createSecretKey, nativeCrypto, openSocket } from 'nostrain/node';
import type { RelayReport } from 'nostrain/probe';
import { createRelay, type RelayOptions } from 'nostrain/relay';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeRelay } from '../../src/node/net/relays.ts';
import { probeRelay } from '../../src/probe/probe.ts';
import { judgeRelay } from '../../src/probe/report.ts';
import { createIdleClock } from '../support/idle-clock.ts';
import { type Habits, startPlainRelay } from '../support/plain-relay.ts';

let clock = createIdleClock();
beforeEach(() => {
  clock = createIdleClock();
});
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const probe = (url: string, limits = {}): Promise<RelayReport> =>
  probeRelay(url, {
    ...{ openSocket, clock, signal: new AbortController().signal },
    signer: createSigner(createSecretKey(), nativeCrypto),
    ...{ timeLimitMs: 20_000, openTimeoutMs: 2000, answerTimeoutMs: 2000, pauseMs: 400 },
    onStep: () => {},
    describe: describeRelay,
    ...limits,
  });

async function relay(options: RelayOptions) {
  const started = await createRelay({ nowMs: clock.now, ...options });
  stops.push(started.close);
  return started;
}

const probeOurs = async (options: RelayOptions, limits = {}) =>
  probe((await relay(options)).url, limits);

async function probePlain(habits: Habits, limits = {}) {
  const started = await startPlainRelay(habits);
  stops.push(started.close);
  return { report: await probe(started.url, limits), events: started.events };
}

const verdicts = ({ kinds }: RelayReport) =>
  Object.fromEntries(Object.entries(kinds).map(([kind, { verdict }]) => [kind, verdict]));

const ALL_TAKEN = {
  5: 'yes',
  7810: 'yes',
  7811: 'yes',
  27811: 'yes',
  33333: 'yes',
  33334: 'yes',
  37811: 'yes',
};

describe('a relay that restricts nothing', () => {
  it('takes everything, keeps it, finds it by tag and deletes it again', async () => {
    const started = await relay({ name: 'mine' });
    const report = await probe(started.url);
    expect(verdicts(report)).toEqual(ALL_TAKEN);
    expect(report).toMatchObject({
      filters: { s: 'works', c: 'works' },
      auth: { write: false, read: false },
      size: { keptBytes: 256 * 1024 },
      deletes: true,
      stated: { name: 'mine' },
    });
    expect(report.size.refusedBytes).toBeUndefined();
    expect(report.rate.accepted).toBeGreaterThanOrEqual(20);
    expect(report.rate.throttled).toBeUndefined();
    expect(report.work).toBeUndefined();
    expect(judgeRelay(report)).toEqual({ carries: 'chunks', why: [] });
    // only the deletion is left
    expect(started.stats().eventsStored).toBe(1);
  });

  it('is not asked for more than it must be', async () => {
    const { report, events } = await probePlain({ brings: () => true });
    expect(report.spent.events).toBeLessThanOrEqual(40);
    expect(report.spent.bytes).toBeLessThanOrEqual(1_000_000);
    for (const { kind, tags } of events) {
      expect(tags).toContainEqual(['t', 'nostrain']);
      const expiration = Number(tags.find(([name]) => name === 'expiration')?.[1]);
      expect(expiration - clock.now() / 1000, `kind ${kind}`).toBeLessThanOrEqual(300);
      expect(expiration - clock.now() / 1000, `kind ${kind}`).toBeGreaterThan(240);
    }
    const deletion = events.filter(({ kind }) => kind === 5);
    expect(deletion).toHaveLength(1);
    const stored = events.filter(({ kind }) => kind !== 5 && kind !== 27_811);
    const named = deletion[0]!.tags.filter(([name]) => name === 'e').map(([, id]) => id);
    expect(new Set(named)).toEqual(new Set(stored.map(({ id }) => id)));
  });
});

describe('relays like others', () => {
  it('strfry takes 64 KiB to the byte', async () => {
    const report = await probeOurs({ strict: 'strfry' });
    expect(report.size).toMatchObject({
      keptBytes: 65_536,
      refusedBytes: 102_400,
      words: expect.stringContaining('invalid: event too large'),
    });
    expect(verdicts(report)).toEqual(ALL_TAKEN);
    expect(judgeRelay(report).carries).toBe('chunks');
  });

  it('nostr-rs-relay says with a NOTICE that it is too much', async () => {
    const report = await probeOurs({ strict: 'nostr-rs-relay' });
    expect(report.size).toMatchObject({
      keptBytes: 102_400,
      words: expect.stringContaining('message too large'),
    });
    expect(judgeRelay(report).carries).toBe('chunks');
  });

  it('nostream counts characters and has words of its own', async () => {
    const report = await probeOurs({ strict: 'nostream' });
    expect(report.size).toMatchObject({
      keptBytes: 102_400,
      words: 'rejected: content is longer than 102400 bytes',
    });
    expect(judgeRelay(report).carries).toBe('chunks');
  });
});

describe('what a relay asks for', () => {
  it.each([
    ['write', { write: true, read: false, letIn: true }],
    ['all', { write: true, read: true, letIn: true }],
  ] as const)('AUTH to %s is given, and the rest is measured', async (auth, asked) => {
    const report = await probeOurs({ auth });
    expect(report.auth).toEqual(asked);
    expect(verdicts(report)).toEqual(ALL_TAKEN);
    expect(report.deletes).toBe(true);
  });

  it('AUTH asked for by a NOTICE', async () => {
    const report = await probeOurs({ auth: 'all', strict: 'strfry' });
    expect(report.auth).toEqual({ write: true, read: true, letIn: true });
    expect(verdicts(report)).toEqual(ALL_TAKEN);
  });

  it('work is done up to a point', async () => {
    const light = await probeOurs({ minPow: 6 });
    expect(light.work).toMatchObject({ bits: 6, words: expect.stringMatching(/^pow:/) });
    expect(verdicts(light)).toEqual(ALL_TAKEN);
    const heavy = await probeOurs({ minPow: 40 });
    expect(heavy.work?.bits).toBe(40);
    expect(heavy.spent.events).toBe(1);
    expect(judgeRelay(heavy)).toMatchObject({
      carries: 'nothing',
      why: ['asks for proof of work of 40 bits, more than nostrain does'],
    });
  });

  it('small events: the largest it takes, with its words', async () => {
    const report = await probeOurs({ maxEventBytes: 40_000 });
    expect(report.size.keptBytes).toBeGreaterThan(31_000);
    expect(report.size.keptBytes).toBeLessThanOrEqual(32_768);
    expect(report.size.words).toContain('the limit is 40000');
    expect(judgeRelay(report)).toMatchObject({
      carries: 'manifests',
      next: expect.stringContaining('eventBudget'),
    });
  });

  it('only some kinds', async () => {
    const report = await probeOurs({ limits: { kinds: [5, 33_334] } });
    expect(verdicts(report)).toEqual({
      ...{ 5: 'yes', 33334: 'yes' },
      ...{ 7810: 'refused', 7811: 'refused', 27811: 'refused', 33333: 'refused', 37811: 'refused' },
    });
    expect(judgeRelay(report)).toMatchObject({
      carries: 'heartbeats',
      why: ['kind 7810: blocked: kind 7810 is not accepted here'],
    });
  });

  it('a pause: the events before it are counted, and the wait', async () => {
    // a minute of this relay is a second and a half
    const startMs = clock.now();
    const nowMs = () => startMs + 40 * (clock.now() - startMs);
    const report = await probeOurs({ faults: { throttle: 5 }, nowMs }, { timeLimitMs: 9000 });
    expect(report.rate).toMatchObject({ accepted: 5, throttled: 'rate-limited: slow down' });
    expect(report.rate.againAfterSeconds).toBeGreaterThan(0.3);
    expect(report.rate.againAfterSeconds).toBeLessThan(5);
    expect(judgeRelay(report)).toMatchObject({
      carries: 'chunks',
      next: expect.stringContaining('nostrain plan'),
    });
  });
});

describe('a relay that', () => {
  it('swallows is given up after two events', { timeout: 120_000 }, async () => {
    const limits = { answerTimeoutMs: 300 };
    const report = await probeOurs({ faults: { swallow: 1 } }, limits);
    expect(report.spent.events).toBe(2);
    expect(judgeRelay(report)).toMatchObject({
      carries: 'nothing',
      why: ['kind 7810: no answer in time'],
    });
  });

  it('keeps nothing it accepted is unusable', async () => {
    const report = await probeOurs({ faults: { falseEose: 1 } }, { timeLimitMs: 1500 });
    expect(report.kinds[7810]?.verdict).toBe('lost');
    expect(judgeRelay(report)).toMatchObject({
      carries: 'nothing',
      why: ['accepts events but does not return them'],
    });
  });

  it('hangs up after each message carries nothing, however well it keeps', {
    timeout: 240_000,
  }, async () => {
    const report = await probeOurs({ faults: { disconnectAfter: 1 } });
    expect(report.hangUps?.times).toBeGreaterThan(4);
    expect(judgeRelay(report)).toMatchObject({
      carries: 'nothing',
      why: [expect.stringMatching(/^hangs up after \d+ of \d+ messages$/)],
    });
  });

  it('hangs up is called again, and its large events count as too large', async () => {
    const answer = ({ kind }: { readonly kind: number }) =>
      kind === 7810 ? ('hang-up' as const) : ([true, ''] as const);
    const { report } = await probePlain({ answer, brings: () => false });
    expect(report.kinds[7810]?.verdict).toBe('refused');
    expect(report.kinds[7811]?.verdict).toBe('yes');
    expect(report.size.words).toContain('it hung up');
  });

  it('ignores tag filters is told apart from one that finds nothing', async () => {
    const [all, none] = await Promise.all([
      probePlain({ brings: () => true }),
      probePlain({ brings: () => false }),
    ]);
    expect(all.report.filters).toEqual({ s: 'brings too much', c: 'brings too much' });
    expect(judgeRelay(all.report).carries).toBe('chunks');
    expect(none.report.filters).toEqual({ s: 'finds nothing', c: 'finds nothing' });
    expect(judgeRelay(none.report)).toMatchObject({
      carries: 'nothing',
      why: ['manifests cannot be queried: its #s filter finds nothing'],
    });
  });

  it('forgets everything after half a minute is told apart from one whose filter finds nothing', async () => {
    let sent = 0;
    const { report } = await probePlain(
      {
        // a pause after the manifest, longer than the relay remembers
        answer: () => (++sent > 1 && sent < 5 ? [false, 'rate-limited: slow down'] : [true, '']),
        brings: ({ tags }, filter) =>
          Object.entries(filter).every(
            ([name, values]) =>
              !name.startsWith('#') ||
              tags.some(([tag, value]) => `#${tag}` === name && `${values}` === value),
          ),
        forgetMs: 30_000,
        nowMs: () => clock.now(),
      },
      { timeLimitMs: 120_000, pauseMs: 13_000 },
    );
    expect(report.filters.s).toBe('unknown');
    expect(report.forgets?.afterSeconds).toBeGreaterThanOrEqual(30);
    expect(judgeRelay(report)).toMatchObject({
      carries: 'nothing',
      why: [expect.stringMatching(/^forgets events: what it had stored was gone after \d\d s, so/)],
      next: expect.stringContaining('a relay that keeps events for days'),
    });
  });

  it('refuses what is dated now speaks of a clock', async () => {
    const words = 'invalid: created_at too late';
    const { report } = await probePlain({
      answer: () => [false, words],
      aheadMs: -700_000,
    });
    expect(report.clockWords).toBe(words);
    expect(report.skewSeconds).toBeGreaterThan(690);
    expect(report.spent.events).toBe(1);
    expect(judgeRelay(report).next).toContain('clock');
  });

  it('refuses unknown keys is reported with its message', async () => {
    const words = 'blocked: you are not on the list';
    const { report } = await probePlain({ answer: () => [false, words] });
    expect(judgeRelay(report)).toMatchObject({ carries: 'nothing', why: [`kind 7810: ${words}`] });
    expect(report.deletes).toBeUndefined();
  });

  it('is not there has a problem and nothing else', async () => {
    const report = await probe('ws://127.0.0.1:9');
    expect(report.problem).toContain('ECONNREFUSED');
    expect(judgeRelay(report).carries).toBe('nothing');
  });
});

it('ends when it is told to', async () => {
  const stop = new AbortController();
  const started = await relay({});
  const onStep = (step: string) => {
    if (step === 'a chunk') stop.abort(new Error('enough'));
  };
  await expect(probe(started.url, { signal: stop.signal, onStep })).rejects.toThrow('enough');
  expect(started.stats().eventsStored).toBeLessThan(3);
});
