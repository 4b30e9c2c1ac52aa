/** The transport against real relays on loopback, some of them faulty. */

import { systemClock } from 'nostrain/base';
import {
  createRelaySet,
  type RelaySet,
  type RelaySetOptions,
  type SignedEvent,
} from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { afterEach, expect, test } from 'vitest';
import { eventOf, signerOf } from '../../support/signers.ts';

const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const thing of opened.splice(0).reverse()) await thing.close();
});

async function start(options: RelayOptions = {}): Promise<Relay> {
  const relay = await createRelay(options);
  opened.push(relay);
  return relay;
}

function connect(relays: readonly string[], options: Partial<RelaySetOptions> = {}): RelaySet {
  const set = createRelaySet(relays, {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
    retry: { maxAttempts: 3, initialMs: 20, maxMs: 100, multiplier: 2, jitter: 'none' },
    ...options,
  });
  opened.push(set);
  return set;
}

/** Everything a set hears of kind 1000, and a way to wait for it. */
function listen(set: RelaySet) {
  const heard: SignedEvent[] = [];
  let check = () => {};
  const subscription = set.subscribe([{ kinds: [1000] }], {
    onEvent: (event) => {
      heard.push(event);
      check();
    },
    onCaughtUp: () => check(),
  });
  const until = (condition: () => boolean) =>
    new Promise<void>((resolve) => {
      check = () => {
        if (condition()) resolve();
      };
      check();
    });
  return { heard, subscription, until, contents: () => heard.map((event) => event.content) };
}

/** A port without a server. */
async function deadUrl(): Promise<string> {
  const relay = await createRelay();
  await relay.close();
  return relay.url;
}

test('own events come back, once, over several relays', async () => {
  const set = connect([(await start()).url, (await start()).url]);
  const { until, heard } = listen(set);
  const event = eventOf('A'.repeat(770_000));
  const outcomes = await set.publish(event);
  expect(outcomes.map(({ status }) => status)).toEqual(['accepted', 'accepted']);
  await until(() => heard.length === 1);
  expect(heard).toEqual([event]);
  const [first] = set.status();
  expect(first).toMatchObject({ state: 'open', failures: 0 });
  expect(first!.bytesOut).toBeGreaterThan(770_000);
});

test('with one of three relays dead and one losing half, everything arrives once', async () => {
  const good = await start();
  const lossy = await start({ faults: { drop: 0.5, duplicate: 0.5 }, seed: 3 });
  const urls = [await deadUrl(), lossy.url, good.url];
  const [sender, receiver] = [connect(urls), connect(urls)];
  const { until, contents, subscription } = listen(receiver);
  await until(() => subscription.caughtUp);
  const names = Array.from({ length: 10 }, (_, i) => `${i}`);
  for (const name of names) {
    const outcomes = await sender.publish(eventOf(name));
    expect(outcomes.map(({ status }) => status)).toEqual(['unreachable', 'accepted', 'accepted']);
  }
  await until(() => contents().length >= names.length);
  expect(contents().toSorted()).toEqual(names);
  expect(lossy.stats().deliveriesDropped).toBeGreaterThan(0);
});

test('delays, repeats and another order change neither the set of events nor their number', async () => {
  const faults = {
    delay: { shape: 'uniform', minMs: 0, maxMs: 40 },
    duplicate: 0.3,
    reorder: 0.3,
    reorderMs: 40,
  } as const;
  const relay = await start({ faults, seed: 11 });
  const set = connect([relay.url]);
  const { until, contents } = listen(set);
  const names = Array.from({ length: 15 }, (_, i) => String(i).padStart(2, '0'));
  await Promise.all(names.map((name) => set.publish(eventOf(name))));
  await until(() => contents().length >= names.length);
  expect(contents()).not.toEqual(names);
  expect(contents().toSorted()).toEqual(names);
});

test('comes back to a relay that was restarted, and asks again', async () => {
  const first = await createRelay();
  const { port, url } = first;
  const set = connect([url], { reconnectMaxMs: 50 });
  const { until, contents, subscription } = listen(set);
  await until(() => subscription.caughtUp);
  await set.publish(eventOf('before'));
  await first.close();
  await start({ port });
  await set.ready();
  expect((await set.publish(eventOf('after')))[0]!.status).toBe('accepted');
  await until(() => contents().length === 2);
  expect(contents()).toEqual(['before', 'after']);
  expect(set.status()[0]).toMatchObject({ opens: 2, state: 'open' });
});

test('survives a relay that hangs up after every few frames', async () => {
  const relay = await start({ faults: { disconnectAfter: 3 } });
  const set = connect([relay.url]);
  const { until, contents } = listen(set);
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    expect((await set.publish(eventOf(name)))[0]!.status).toBe('accepted');
  }
  await until(() => contents().length === 5);
  expect(relay.stats().connectionsTotal).toBeGreaterThan(1);
});

test('a relay that refuses its first connections is reached by trying again', async () => {
  const relay = await start({ faults: { refuseConnections: 2 } });
  const [outcome] = await connect([relay.url]).publish(eventOf('third time'));
  expect(outcome).toMatchObject({ status: 'accepted', attempts: 3, delaysMs: [20, 40] });
});

test('an event beyond the limit of a relay is refused there and accepted elsewhere', async () => {
  const [strict, roomy] = [await start({ maxEventBytes: 65_536 }), await start()];
  const set = connect([strict.url, roomy.url]);
  const outcomes = await set.publish(eventOf('A'.repeat(770_000)));
  expect(outcomes.map(({ status }) => status)).toEqual(['refused', 'accepted']);
  expect(outcomes[0]!.message).toMatch(/too large/);
  const small = await set.publish(eventOf('small'));
  expect(small.map(({ status }) => status)).toEqual(['accepted', 'accepted']);
});

test('many workers at one relay hear each other', async () => {
  const relay = await start();
  const sets = Array.from({ length: 8 }, () => connect([relay.url]));
  const ears = sets.map(listen);
  await Promise.all(sets.map((set) => set.ready()));
  await Promise.all(
    sets.map((set, i) =>
      set.publish(
        signerOf(i + 1).sign({ kind: 1000, created_at: 1_700_000_000, tags: [], content: `${i}` }),
      ),
    ),
  );
  await Promise.all(ears.map(({ until, heard }) => until(() => heard.length === 8)));
  for (const { contents } of ears) expect(new Set(contents()).size).toBe(8);
  expect(relay.stats()).toMatchObject({ connections: 8, eventsAccepted: 8 });
});
