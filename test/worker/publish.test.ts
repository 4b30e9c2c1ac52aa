/** How long a gradient is sent again while relays are away, and when its worker gives up. */

import { type NostrainError, RelayError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { deferred } from '../../src/base/async.ts';
import { publish, publishWorked } from '../../src/worker/publish.ts';
import { fakePorts, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

type Failed = readonly {
  readonly relay: string;
  readonly message: string;
  readonly isTemporary: boolean;
}[];
/** What the relays do with the gradient the `times`-th time: take it, refuse it, or never answer. */
type Answer = (times: number) => 'taken' | 'silent' | Failed;

const away: Failed = [{ relay: 'one', message: 'is closed', isTemporary: true }];
const refused: Failed = [{ relay: 'one', message: 'blocked', isTemporary: false }];

async function send(
  answer: Answer,
  more: Parameters<typeof plan>[0] = {},
  {
    isWanted,
    reachable = ['two'],
    lacksWork = false,
  }: { isWanted?: () => boolean; reachable?: string[]; lacksWork?: boolean } = {},
) {
  const clock = createManualClock();
  const ats: number[] = [];
  const startMs = clock.now();
  const wire = {
    reachable: () => reachable,
    lacksWork: () => lacksWork,
    send: () => {
      ats.push((clock.now() - startMs) / 1000);
      const is = answer(ats.length);
      const never = new Promise<never>(() => undefined);
      if (is === 'silent') return { taken: never, settled: never };
      const failed = is === 'taken' ? [] : is;
      const accepted = is === 'taken' ? ['one'] : [];
      return {
        taken: Promise.resolve(is === 'taken'),
        settled: Promise.resolve({ accepted, failed }),
      };
    },
  };
  const ports = fakePorts(clock, { wire });
  const session = { plan: plan(more), ports, signal: new AbortController().signal };
  let end: { readonly seconds: number; readonly error?: NostrainError } | undefined;
  const sealed = { round: 0, sent: { payloadBytes: 1, eventBytes: 2 } as never };
  const over = (error?: NostrainError) => {
    end = { seconds: (clock.now() - startMs) / 1000, ...(error && { error }) };
  };
  void publish(sealed, session, isWanted && { isWanted }).then(() => over(), over);
  await clock.advance(300_000);
  const told = ports.events.map(({ type }) => type);
  return { ats, told, ...end };
}

const seconds = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('a gradient', () => {
  it('is sent again while relays are away, which is reported once', async () => {
    const back = await send((times) => (times > 3 ? 'taken' : away));
    expect(back).toMatchObject({ ats: [0, 1, 3, 7], told: ['notice', 'published'], seconds: 7 });
    expect(back.error).toBeUndefined();
    // the watch reports it if no relay is reachable
    const dark = await send((times) => (times > 3 ? 'taken' : away), {}, { reachable: [] });
    expect(dark.told).toEqual(['published']);
  });

  it('is sent for as long as relays are away, busy or silent', async () => {
    const dark = await send(() => away, {}, { reachable: [] });
    expect(dark).toEqual({ ats: seconds(301), told: [] });
    // relays that answer are asked less and less often
    const busy = await send(() => away);
    expect(busy).toEqual({
      ats: [0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181, 211, 241, 271],
      told: ['notice'],
    });
    const silent = await send(() => 'silent');
    expect(silent).toEqual({ ats: [0], told: ['notice'] });
  });

  it('is not sent again if relays refuse it, if the plan does not wait, or once it is not wanted', async () => {
    expect(await send(() => refused)).toMatchObject({
      ...{ ats: [0], seconds: 0 },
      error: { code: 'relay/none-accepted', message: expect.stringContaining('one blocked') },
    });
    const unworked = await send(() => away, {}, { lacksWork: true });
    expect([unworked.ats, unworked.error?.code]).toEqual([[0], 'relay/none-accepted']);
    const once = await send(() => away, { waitsForRelays: false });
    expect([once.ats, once.error?.code]).toEqual([[0], 'relay/none-accepted']);
    let asked = 0;
    const late = await send(() => away, {}, { isWanted: () => ++asked < 3 });
    expect([late.ats, late.error]).toEqual([[0, 1, 3], undefined]);
    const silent = await send(() => 'silent', {}, { isWanted: () => false });
    expect([silent.seconds, silent.error]).toEqual([180, undefined]);
  });

  it.each([
    ['timeout of the round', {}, 10],
    ['timeout of publishing, if it is longer', { publishTimeoutMs: 220_000 }, 220],
  ])('of a plan that does not wait is given up at the %s', async (_, more, most) => {
    const silent = await send(() => 'silent', { ...more, waitsForRelays: false });
    expect([silent.ats, silent.seconds, silent.error?.code]).toEqual([[0], most, 'relay/none-accepted']); // biome-ignore format: one line
    expect(silent.error!.message).toContain(`none within ${most} s`);
  });

  it('in chunks reports every second how many are out, once each, until it is taken', async () => {
    const clock = createManualClock();
    const progress = { have: 0, of: 3 };
    const taken = deferred<boolean>();
    const wire = {
      send: () => ({
        ...{ taken: taken.promise, progress: () => ({ ...progress }) },
        settled: taken.promise.then(() => ({ accepted: ['one'], failed: [] })),
      }),
    };
    const ports = fakePorts(clock, { wire });
    const session = { plan: plan(), ports, signal: new AbortController().signal };
    const published = publish({ round: 4, sent: {} as never }, session);
    for (const have of [0, 1, 1]) {
      progress.have = have;
      await clock.advance(1000);
    }
    progress.have = 3;
    taken.settle(true);
    await published;
    await clock.advance(5000);
    const transfer = { type: 'transfer', way: 'out', round: 4, of: 3 };
    expect(ports.events.filter(({ type }) => type === 'transfer')).toEqual([
      { ...transfer, have: 0 },
      { ...transfer, have: 1 },
    ]);
    expect(clock.pending).toBe(0);
  });

  it('that relays refuse without proof of work is signed again, saved, and published', async () => {
    const worked = { id: 'worked' };
    const event = { id: 'bare' };
    const play = async (failure: Error, isLacking = true) => {
      const ports = fakePorts(createManualClock(), {
        wire: {
          lacksWork: (event) => event !== (worked as never) && isLacking,
          renew: async () => worked as never,
        },
      });
      const log: unknown[] = [];
      const store = {
        ...ports.store,
        save: async (state: object) => void log.push(['saved', state]),
      };
      const round = {
        publish: async (state: object) => {
          log.push(['published', state]);
          if (log.length === 1) throw failure;
        },
      };
      const session = { plan: plan(), ports: { ...ports, store }, signal: new AbortController().signal }; // biome-ignore format: one line
      const state = { round: 0, sent: { event, roster: [] } };
      const done = await publishWorked(state as never, round as never, session).catch((error) => error); // biome-ignore format: one line
      return { log, done, state };
    };
    const failure = new RelayError('relay/none-accepted', 'pow: 20 bits');
    const { log, done, state } = await play(failure);
    const after = { ...state, sent: { ...state.sent, event: worked } };
    expect(done).toEqual(after);
    expect(log).toEqual([['published', state], ['saved', after], ['published', after]]); // biome-ignore format: one line
    expect((await play(failure, false)).done).toBe(failure);
    const bug = new TypeError('a bug');
    expect((await play(bug)).done).toBe(bug);
  });
});
