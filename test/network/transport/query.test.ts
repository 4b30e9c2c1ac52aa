/** One query to several relays: each event once, and which relays sent no EOSE. */

import type { RelaySet, RelayStatus, SubscriptionHandlers } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import { queryRelays } from '../../../src/network/transport/query.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { signerOf } from '../../support/signers.ts';

const eventOf = (content: string) =>
  signerOf(1).sign({ kind: 1, created_at: 1, tags: [], content });
const filters = [{ kinds: [1] }];

/** Relays of which each answers when told so. */
function fakeRelays(...names: readonly string[]) {
  let handlers: SubscriptionHandlers | undefined;
  const subscription = {
    caughtUp: false,
    isClosed: false,
    renew: () => undefined,
    close() {
      this.isClosed = true;
    },
  };
  const states = new Map(names.map((name) => [name, { state: 'open', failures: 0 }]));
  const relays: Pick<RelaySet, 'subscribe' | 'status'> = {
    subscribe(_, given) {
      handlers = given;
      return subscription;
    },
    status: () =>
      [...states].map(([relay, state]) => ({ relay, ...state }) as unknown as RelayStatus),
  };
  return { relays, states, told: () => handlers!, isClosed: () => subscription.isClosed };
}

async function ask(names: readonly string[], waitMs = 60_000) {
  const clock = createManualClock();
  const fake = fakeRelays(...names);
  const startedMs = clock.now();
  let tookMs: number | undefined;
  const result = queryRelays(filters, { waitMs }, fake.relays, clock).then((found) => {
    tookMs = clock.now() - startedMs;
    return found;
  });
  return { ...fake, clock, result, tookMs: () => tookMs };
}

describe('a query', () => {
  it('ends when every relay has said that it is through', async () => {
    const { told, clock, result, tookMs, isClosed } = await ask(['a', 'b']);
    const event = eventOf('one');
    told().onEvent(event, 'a');
    told().onCaughtUp?.('a');
    await clock.advance(1000);
    expect(tookMs()).toBeUndefined();
    told().onCaughtUp?.('b');
    await clock.advance(0);
    expect(await result).toEqual({ events: [event], answered: ['a', 'b'], unanswered: [] });
    expect([tookMs(), isClosed()]).toEqual([1000, true]);
  });

  it('waits for a relay that was silent before no second time, and tells who is waited for', async () => {
    const clock = createManualClock();
    const { relays, told } = fakeRelays('a', 'b', 'silent');
    const waited: (readonly string[])[] = [];
    const asked = {
      ...relays,
      silent: new Set<string>(),
      onWaiting: (names: readonly string[]) => waited.push(names),
    };
    const tookMs = async (): Promise<number> => {
      const startedMs = clock.now();
      const result = queryRelays(filters, { waitMs: 60_000 }, asked, clock).then(() => clock.now());
      told().onCaughtUp?.('a');
      told().onCaughtUp?.('b');
      await clock.advance(5000);
      return (await result) - startedMs;
    };
    expect(await tookMs()).toBe(2000);
    expect(waited).toEqual([['silent']]);
    expect(await tookMs()).toBe(200);
    expect([...asked.silent]).toEqual(['silent']);
  });

  it('attack: a relay that never says EOSE costs two seconds, not a minute, and is named', async () => {
    const { told, clock, result, tookMs } = await ask(['a', 'b', 'silent']);
    told().onCaughtUp?.('a');
    told().onCaughtUp?.('b');
    await clock.advance(1999);
    expect(tookMs()).toBeUndefined();
    await clock.advance(1);
    expect(await result).toEqual({ events: [], answered: ['a', 'b'], unanswered: ['silent'] });
  });

  it('attack: one relay that says EOSE at once does not speak for an honest one that is slow', async () => {
    const { told, clock, result, tookMs } = await ask(['hasty', 'slow']);
    told().onCaughtUp?.('hasty');
    await clock.advance(9000);
    const event = eventOf('late');
    told().onEvent(event, 'slow');
    await clock.advance(9000);
    expect(tookMs()).toBeUndefined();
    told().onCaughtUp?.('slow');
    await clock.advance(0);
    expect(await result).toEqual({
      events: [event],
      answered: ['hasty', 'slow'],
      unanswered: [],
    });
  });

  it('while a relay brings what is new it is waited for, up to the limit and no longer', async () => {
    const { told, clock, result, tookMs } = await ask(['a', 'b', 'trickle'], 10_000);
    told().onCaughtUp?.('a');
    told().onCaughtUp?.('b');
    for (let i = 0; i < 9; i++) {
      await clock.advance(1000);
      told().onEvent(eventOf(String(i)), 'trickle');
    }
    expect(tookMs()).toBeUndefined();
    await clock.advance(1000);
    expect((await result).events).toHaveLength(9);
    expect(tookMs()).toBe(10_000);
  });

  it('does not wait for relays that are unreachable or that closed the query', async () => {
    const { told, states, clock, result } = await ask(['a', 'down', 'closed']);
    states.set('down', { state: 'waiting', failures: 3 });
    told().onLost?.('closed', 'restricted: members only');
    told().onCaughtUp?.('a');
    await clock.advance(0);
    expect(await result).toEqual({ events: [], answered: ['a'], unanswered: [] });
  });

  it('waits the whole time while no relay answers', async () => {
    const { clock, result, tookMs } = await ask(['a', 'b'], 5000);
    await clock.advance(4999);
    expect(tookMs()).toBeUndefined();
    await clock.advance(1);
    expect(await result).toEqual({ events: [], answered: [], unanswered: ['a', 'b'] });
  });

  it('ends with what it has when the relays are closed', async () => {
    const clock = createManualClock();
    const { relays, told } = fakeRelays('a', 'b');
    const close = new AbortController();
    const asked = { ...relays, closing: close.signal };
    const result = queryRelays(filters, { waitMs: 60_000 }, asked, clock);
    const event = eventOf('one');
    told().onEvent(event, 'a');
    close.abort();
    expect(await result).toEqual({ events: [event], answered: [], unanswered: ['a', 'b'] });
    const later = queryRelays(filters, { waitMs: 60_000 }, asked, clock);
    expect((await later).events).toEqual([]);
  });

  it('ends early where enough came, and when it is aborted', async () => {
    const clock = createManualClock();
    const { relays, told, isClosed } = fakeRelays('a');
    const heard: unknown[] = [];
    const onEvent = (event: unknown) => heard.push(event) > 0;
    const found = queryRelays(filters, { waitMs: 1000, onEvent }, relays, clock);
    const event = eventOf('enough');
    told().onEvent(event, 'a');
    told().onEvent(eventOf('more'), 'a');
    // with `onEvent`, the caller keeps the events and the query does not
    expect(await found).toEqual({ events: [], answered: [], unanswered: [] });
    expect(heard).toEqual([event]);
    const stop = new AbortController();
    const aborted = queryRelays(filters, { waitMs: 1000, signal: stop.signal }, relays, clock);
    stop.abort(new Error('over'));
    await expect(aborted).rejects.toThrow('over');
    expect(isClosed()).toBe(true);
  });
});
