/** Sending to real relays on loopback that limit rates, require AUTH or lose events. */

import { systemClock } from 'nostrain/base';
import { createRelaySet, type RelaySetOptions } from 'nostrain/network';
import { fetchRelayInfo, mine, nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type RelayOptions } from 'nostrain/relay';
import { afterEach, expect, test } from 'vitest';
import { createManualClock } from '../../support/manual-clock.ts';
import { eventOf, signerOf } from '../../support/signers.ts';

const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const thing of opened.splice(0).reverse()) await thing.close();
});

async function connect(relay: RelayOptions, options: Partial<RelaySetOptions> = {}) {
  const server = await createRelay(relay);
  const set = createRelaySet([server.url], {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
    fetchInfo: (url, signal) => fetchRelayInfo(url, { signal }),
    ...options,
  });
  opened.push(server, set);
  return { server, set };
}

test('AUTH is given where it is asked for, for events and subscriptions', async () => {
  const { set } = await connect({ auth: 'all' }, { auth: signerOf(1) });
  const heard = new Promise((resolve) => {
    set.subscribe([{ kinds: [1000] }], { onEvent: resolve });
  });
  const event = eventOf('payload');
  expect((await set.publish(event))[0]).toMatchObject({ status: 'accepted' });
  expect(await heard).toEqual(event);
});

test('the work a relay describes is done before signing', async () => {
  const { set } = await connect({ minPow: 10 });
  const signer = signerOf(1);
  const draft = { kind: 1000, created_at: 1_700_000_000, tags: [], content: 'heartbeat' };
  const [without] = await set.publish(signer.sign({ ...draft, content: 'no work' }));
  expect(without).toMatchObject({
    status: 'pow-needed',
    message: expect.stringMatching(/10/),
  });
  const bits = set.workFor(1000);
  expect(bits).toBe(10);
  const signal = new AbortController().signal;
  const mined = await mine({ ...draft, pubkey: signer.publicKey }, bits, signal);
  expect((await set.publish(signer.sign(mined)))[0]!.status).toBe('accepted');
});

test.each(['strfry', 'nostr-rs-relay', 'nostream'] as const)(
  'a relay like %s refuses what is too large, and the limit is remembered',
  async (strict) => {
    const { set } = await connect({ strict });
    const [first] = await set.publish(eventOf('x'.repeat(600_000)));
    expect(first).toMatchObject({ status: 'refused', message: expect.stringMatching(/too large/) });
    expect(set.status()[0]!.limits.maxEventBytes).toBeLessThan(600_345);
    expect((await set.publish(eventOf('y'.repeat(600_000))))[0]!.attempts).toBe(0);
  },
);

test('a relay that throttles gets everything in the end, at a rate it likes', async () => {
  const clock = createManualClock();
  const { set, server } = await connect(
    { faults: { throttle: 3 }, nowMs: clock.now },
    { clock, random: () => 0 },
  );
  const stop = new AbortController();
  const events = Array.from({ length: 8 }, (_, i) => eventOf(`${i}`));
  let isDone = false;
  const publishing = Promise.all(
    events.map((event) => set.publish(event, { signal: stop.signal })),
  ).finally(() => {
    isDone = true;
  });
  for (let i = 0; i < 1000 && !isDone; i++) {
    await clock.advance(2000);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const statuses = (await publishing).map(([outcome]) => outcome!.status);
  expect(statuses).toEqual(events.map(() => 'accepted'));
  expect(server.stats().eventsStored).toBe(8);
  expect(set.status()[0]!.limits.eventsPerMinute).toBeLessThanOrEqual(5);
});

test('a relay that swallows events gives no verdict', async () => {
  const retry = { maxAttempts: 2, initialMs: 1, maxMs: 1, multiplier: 1, jitter: 'none' } as const;
  const { set, server } = await connect(
    { faults: { swallow: 1 } },
    { publishTimeoutMs: 30, retry },
  );
  expect((await set.publish(eventOf('payload')))[0]).toMatchObject({
    status: 'no-verdict',
    attempts: 2,
  });
  expect(server.stats().eventsSwallowed).toBe(2);
});

test('a relay that accepts and finds nothing is found out', async () => {
  const clock = createManualClock();
  const { set } = await connect({ faults: { falseEose: 1 } }, { clock });
  const publish = async (content: string) => {
    const { missing } = set.status()[0]!;
    const publishing = set.publish(eventOf(content));
    while (set.status()[0]!.missing === missing) {
      await clock.advance(1000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return publishing;
  };
  for (const content of ['a', 'b']) await publish(content);
  expect((await publish('c'))[0]).toMatchObject({ status: 'accepted', kept: false });
});
