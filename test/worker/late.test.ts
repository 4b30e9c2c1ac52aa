/** A worker that starts under the name of an existing run: when it is refused, and until when. */

import type { NostrainError } from 'nostrain/base';
import type { Heartbeat } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  assertCompany,
  assertNotLate,
  differenceIn,
  waitForWorkers,
} from '../../src/worker/peers.ts';
import { fakePorts, ME, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const B = 'b'.repeat(64);
const C = 'c'.repeat(64);

const settingsOf = (settings: string) => ({ settings, nonDefault: [], shard: '1/1' });

/** A session at which these heartbeats, each of this age in seconds, and stored gradients have arrived. */
function sessionWith(
  heartbeats: readonly (Partial<Heartbeat> & { readonly age?: number })[],
  gradients: readonly {
    readonly worker?: string;
    readonly round?: number;
    readonly age: number;
  }[] = [],
  more: Parameters<typeof plan>[0] = {},
) {
  const clock = createManualClock();
  const nowSeconds = Math.floor(clock.now() / 1000);
  const stored = gradients.map(({ age, worker = B, round = 3 }) => ({
    ...{ worker, round, createdAt: nowSeconds - age },
  }));
  const ports = fakePorts(clock, { wire: { queryGradients: async () => stored } });
  for (const { age = 0, ...heartbeat } of heartbeats) {
    ports.hear({ ...{ worker: B, round: 3, createdAt: nowSeconds - age }, ...heartbeat });
  }
  const common = { rounds: 9, roundTimeoutMs: 300_000, fingerprint: settingsOf('ours') };
  return {
    plan: plan({ ...common, ...more }),
    ...{ ports, signal: new AbortController().signal },
  };
}

const refusal = (...given: Parameters<typeof sessionWith>) =>
  assertNotLate(sessionWith(...given)).then(
    () => undefined,
    (error: NostrainError) => error,
  );

describe('a fresh start under the name of a run that was killed without goodbye', () => {
  it('reports how long the name is taken, by the last heartbeat', async () => {
    const error = await refusal([{ age: 20 }]);
    expect(error).toMatchObject({
      code: 'round/began',
      hint: expect.stringMatching(/--run NAME.*its name is free in 70 s/),
      data: { round: 3, freeInSeconds: 70 },
    });
    expect(await refusal([{ age: 91 }])).toBeUndefined();
  });

  it('by the last gradient, which is valid for longer', async () => {
    const error = await refusal([{ age: 20 }], [{ age: 30 }]);
    expect(error).toMatchObject({ data: { freeInSeconds: 270 } });
    expect(await refusal([], [{ age: 301 }])).toBeUndefined();
    expect(await refusal([], [{ age: 299 }])).toMatchObject({ data: { freeInSeconds: 1 } });
  });

  it('is refused neither for itself nor for workers that left, train something else or count it', async () => {
    const other = { fingerprint: settingsOf('other') };
    expect(await refusal([], [{ age: 0, worker: ME }])).toBeUndefined();
    expect(await refusal([], [{ age: 0, round: 0 }])).toBeUndefined();
    for (const heartbeat of [{ leaving: true }, other]) {
      expect(await refusal([heartbeat], [{ age: 0 }])).toBeUndefined();
    }
    expect(await refusal([{ cohort: [ME, B] }, { worker: ME }])).toBeUndefined();
    for (const more of [{ refusesLate: false }, { sync: { strategy: 'async' } as const }]) {
      expect(await refusal([{}], [{ age: 0 }], more)).toBeUndefined();
    }
  });
});

describe('a worker in the first round', () => {
  it('is late once all others are past it without having counted it, and no other gradient came', () => {
    const late = (heard: number, ...given: Parameters<typeof sessionWith>) => {
      try {
        assertCompany(heard, sessionWith(...given));
      } catch (error) {
        return (error as NostrainError).code;
      }
      return undefined;
    };
    const both = [{}, { worker: C }];
    expect(late(1, both)).toBe('round/began');
    expect(late(2, both)).toBeUndefined();
    expect(late(1, [{}, { worker: C, round: 0 }])).toBeUndefined();
    expect(late(1, [{ cohort: [ME] }])).toBeUndefined();
    expect(late(1, [{ age: 91 }])).toBeUndefined();
    expect(late(1, both, [], { sync: { strategy: 'async' } })).toBeUndefined();
  });
});

describe('messages about other workers', () => {
  it('blame the relays only if all of them are at fault', async () => {
    for (const troubles of [['one is closed'], ['one is closed', 'two is closed']]) {
      const clock = createManualClock();
      const ports = fakePorts(clock, {
        wire: { relays: ['one', 'two'], troubles: () => troubles },
      });
      const session = { plan: plan({ waitFor: 2 }), ports, signal: new AbortController().signal };
      const failed = waitForWorkers(session, () => undefined).catch(
        (error: NostrainError) => error,
      );
      await clock.advance(5000);
      const { message, hint } = (await failed) as NostrainError;
      expect(message).toContain(troubles.join('; '));
      expect(hint!.includes('nostrain relays check')).toBe(troubles.length === 2);
    }
  });

  it('name the differences, each in its own words, and at most four of them', () => {
    const with_ = (settings: string, ...nonDefault: readonly string[]) => ({
      ...settingsOf(settings),
      nonDefault: ['model=linear', ...nonDefault],
    });
    const told = (ours: readonly string[], theirs: readonly string[]) =>
      differenceIn(with_('1', ...ours), with_('2', ...theirs), 'bob');
    const base = (hash: string, name: string) => `base=${hash.repeat(32)} ${name}`;
    const stop = 'Neither counts the other; stop one and';
    expect(told([], [])).toBe(
      `Worker bob started with other settings, or runs another version of nostrain. ${stop} start it as the other was.`,
    );
    expect(told(['seed=2'], [])).toBe(
      `Worker bob started with another seed (1, yours is 2). ${stop} use the same --seed.`,
    );
    const [two, five] = [
      ['batchSize=3', 'seed=2'],
      ['momentum=0.1', 'owners=2', 'rounds=3'],
    ];
    expect(told(two, [])).toMatch(
      /^Worker bob started with other settings: .*\(yours is .*, .*\(yours is [^,]*\)\. Neither .* use the same --\S+, --\S+\.$/,
    );
    expect(told([...two, ...five], [])).toMatch(/\) and 1 more\. Neither/);
    const [one, other] = [base('a', 'm.bin'), base('a', 'c.json')];
    expect(told([one, other], [base('b', 'm.bin'), other])).toBe(
      `Worker bob started from another base: m.bin differs. ${stop} give both the same --base.`,
    );
    expect(told([one, other], [base('b', 'm.bin'), base('b', 'c.json')])).toContain(
      'another base: c.json, m.bin differ. ',
    );
    // a setting explains more than a file
    expect(told([one, 'seed=2'], [base('b', 'm.bin')])).toContain('another seed');
  });

  it('name another division of the data, or the same part of it, but not other parts', () => {
    const told = (ours: string, theirs: string) =>
      differenceIn({ ...settingsOf('1'), shard: ours }, { ...settingsOf('1'), shard: theirs }, 'b');
    expect(told('1/2', '1/3')).toContain(
      'another number of parts (--shard 1/3, yours is 1/2): use the same N',
    );
    expect(told('2/3', '2/3')).toContain('the same part of the data (--shard 2/3)');
    expect([told('1/3', '2/3'), told('1/1', '1/1')]).toEqual([undefined, undefined]);
  });

  it('warn of more workers than a strict round counts, of any settings without a fingerprint', async () => {
    const noticesWith = async (workers: number, sync: 'strict' | 'quorum' = 'strict') => {
      const strategy = sync === 'strict' ? { strategy: sync, workers } : { strategy: sync };
      const more = { sync: strategy, waitFor: 3, fingerprint: undefined };
      const fingerprint = settingsOf('other');
      const session = sessionWith([{ fingerprint }, { worker: C }], [], more);
      await waitForWorkers(session, () => undefined);
      return session.ports.events.map((event) => event.type === 'notice' && event.message);
    };
    expect(await noticesWith(2)).toEqual([
      expect.stringMatching(
        /^3 workers are online and --sync strict:2 counts 2: .*--sync strict:3$/,
      ),
    ]);
    expect(await noticesWith(3)).toEqual([]);
    expect(await noticesWith(0, 'quorum')).toEqual([]);
  });

  it('name files of strangers on one line, without control characters', () => {
    const files = ['a.txt\u001b[31m\nb', 'c', 'd', 'e', 'f'];
    const withFiles = (hash: string) => ({
      ...settingsOf(hash),
      nonDefault: files.map((name) => `base=${hash.repeat(32)} ${name}`),
    });
    const told = differenceIn(withFiles('1'), withFiles('2'), 'bob');
    expect(told).toMatch(/started from another base: .* and 1 more differ/);
    expect([...told!].filter((letter) => letter < ' ')).toEqual([]);
  });
});
