/** One payload published by several keepers, each a share of it; chunks of zeros are not sent. */
import fc from 'fast-check';
import { type Clock, systemClock } from 'nostrain/base';
import {
  Attachments,
  chunkTree,
  createAssembly,
  createRelaySet,
  heapChunks,
  planChunks,
  type RelaySet,
  type SignedEvent,
  toChunk,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { describe, expect, it } from 'vitest';
import { errandsOf } from '../../../src/network/attachments/publish.ts';
import { createKeeper } from '../../support/keeper.ts';
import { signerOf } from '../../support/signers.ts';

const SIZE = 45_056;
const signal = new AbortController().signal;
const createdAt = Math.floor(Date.now() / 1000);
const lifetime = { createdAt, expiresAt: createdAt + 3600 };
const keep = createKeeper();
const keyOf = (number: number) => signerOf(number).publicKey;

/** A payload of chunks that say something where `said` does. */
function payloadOf(said: readonly boolean[], rest = SIZE): Uint8Array {
  const bytes = new Uint8Array((said.length - 1) * SIZE + rest);
  for (const [i, hasShare] of said.entries())
    if (hasShare) bytes[i * SIZE + (i % 7)] = 1 + (i % 250);
  return bytes;
}
const rootOf = (payload: Uint8Array) => {
  const { root, bytes } = chunkTree(payload, nativeSha256);
  return { root, bytes };
};

describe('chunks of zeros', () => {
  it('follow from the paths of the others, wherever they are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: SIZE }),
        (said, rest) => {
          const payload = payloadOf(said, rest < 8 ? SIZE : rest);
          const { root, bytes } = rootOf(payload);
          const plan = planChunks(payload, lifetime, nativeSha256);
          const how = { maxBytes: bytes, sha256: nativeSha256 };
          const opened = createAssembly({ root, bytes }, how);
          if (!opened.ok) throw new Error(opened.issue.message);
          const [errands] = errandsOf(payload, root, { me: 'a', all: ['a'] }, ['r']);
          for (const { index } of errands!) {
            const event = signerOf(1).sign(plan.draft(index));
            const chunk = toChunk(event, { maxPayloadBytes: bytes }, nativeSha256);
            if (!chunk.ok) throw new Error(chunk.rejection.detail);
            opened.value.add(chunk.value);
          }
          const result = opened.value.result();
          expect(result.ok && Buffer.compare(result.bytes, payload)).toBe(0);
          expect(errands!.length).toBe(Math.max(1, said.filter((is, i) => is || i === 0).length));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('half of a state without momentum is not sent', () => {
    const payload = payloadOf([
      ...new Array<boolean>(74).fill(true),
      ...new Array<boolean>(75).fill(false),
    ]);
    const [errands] = errandsOf(payload, 'root', { me: 'a', all: ['a'] }, ['r']);
    expect(errands).toHaveLength(74);
  });
});

describe('a payload that several keepers share', () => {
  const payload = payloadOf(new Array<boolean>(149).fill(true));
  const relays = ['wss://one', 'wss://two', 'wss://three'];
  const keepers = [1, 2].map(keyOf);
  const all = (names: readonly string[]) =>
    names.flatMap((me) =>
      errandsOf(payload, 'root', { me, all: names }, relays).flatMap((errands, copy) =>
        errands.map(({ index, relays: [relay] }) => ({ me, copy, index, relay })),
      ),
    );

  it('has each chunk at two relays, by two keepers, and twice in all', () => {
    for (const names of [keepers, [1, 2, 3, 4].map(keyOf)]) {
      const sent = all(names);
      expect(sent).toHaveLength(2 * 149);
      for (let index = 0; index < 149; index++) {
        const of = sent.filter((each) => each.index === index);
        expect(new Set(of.map(({ relay }) => relay)).size).toBe(2);
        expect(new Set(of.map(({ me }) => me)).size).toBe(2);
        expect(of.map(({ copy }) => copy).sort()).toEqual([0, 1]);
      }
    }
  });

  it('a single keeper sends both copies', () => {
    const sent = all([keyOf(1)]);
    for (let index = 0; index < 149; index++) {
      const of = sent.filter((each) => each.index === index);
      expect(new Set(of.map(({ relay }) => relay)).size).toBe(2);
    }
  });

  it('shares the work out evenly, over keepers and relays', () => {
    const sent = all(keepers);
    for (const me of keepers) {
      for (const relay of relays) {
        const mine = sent.filter((each) => each.me === me && each.relay === relay);
        // a sixth of two copies; before it was all of one
        expect(mine.length).toBeGreaterThan(35);
        expect(mine.length).toBeLessThan(65);
      }
    }
  });
});

describe('over relays', () => {
  const payload = payloadOf([
    true,
    true,
    true,
    true,
    true,
    true,
    false,
    false,
    false,
    false,
    true,
    false,
  ]);
  const wanted = { ...rootOf(payload), worker: keyOf(1) };
  const connect = async (servers: readonly Relay[]) => {
    const urls = servers.map(({ url }) => url);
    const set = createRelaySet(urls, { openSocket, clock: systemClock, crypto: nativeCrypto });
    await keep(set).ready();
    return set;
  };
  const openAttachments = (relays: RelaySet, clock = systemClock) =>
    new Attachments({ relays, clock, sha256: nativeSha256 });
  const share = async (number: number, numbers: readonly number[], servers: readonly Relay[]) =>
    openAttachments(await connect(servers)).publishShare(
      payload,
      { me: keyOf(number), all: numbers.map(keyOf) },
      { lifetime, signal, sign: (draft) => signerOf(number).sign(draft) },
    );
  const start = (count: number) =>
    Promise.all(Array.from({ length: count }, async () => keep(await createRelay())));

  it('a joiner has all of it when both keepers have sent their first half, and when one of them is gone', async () => {
    const servers = await start(3);
    const [one, two] = [await share(1, [1, 2], servers), await share(2, [1, 2], servers)];
    expect(await Promise.all([one.first, two.first, one.all, two.all])).toEqual([
      true,
      true,
      true,
      true,
    ]);
    const reader = await connect(servers);
    const pulled = await openAttachments(reader).pullOnce(wanted, { signal, idleMs: 60_000 });
    expect(pulled.ok && Buffer.compare(pulled.value, payload)).toBe(0);
    const left = await start(2);
    expect(await (await share(1, [1, 2], left)).all).toBe(true);
    const alone = await openAttachments(await connect(left)).pullOnce(wanted, {
      signal,
      idleMs: 60_000,
    });
    expect(alone.ok).toBe(true);
  });

  it('what a relay does not take goes to another one', async () => {
    const closed = keep(await createRelay({ limits: { kinds: [1] } }));
    const [open] = await start(1);
    expect(await (await share(1, [1], [closed, open!])).all).toBe(true);
    expect(await (await share(1, [1], [closed])).first).toBe(false);
  });

  it('a joiner waits as long as chunks come, and gives up a while after the last', async () => {
    const [server] = await start(1);
    const set = await connect([server!]);
    const plan = planChunks(payload, lifetime, nativeSha256);
    const indices = [0, 1, 2, 3, 4, 5, 10];
    const events: readonly SignedEvent[] = indices.map((i) => signerOf(1).sign(plan.draft(i)));
    let now = 0;
    // a minute passes with each look
    const clock: Clock = {
      now: () => now,
      sleep: async (ms, stop) => {
        await systemClock.sleep(5, stop);
        now += 10 * ms;
      },
    };
    const reader = await connect([server!]);
    const attachments = openAttachments(reader, clock);
    const limits = { signal, idleMs: 120_000 };
    const pulling = attachments.pullOnce(wanted, limits);
    for (const event of events) {
      const from = now;
      while (now < from + 60_000) await systemClock.sleep(5);
      await set.publish(event);
    }
    expect((await pulling).ok).toBe(true);
    expect(now).toBeGreaterThan(120_000);
    const other = { ...rootOf(payloadOf([true, true, true])), worker: keyOf(1) };
    const from = now;
    expect((await attachments.pullOnce(other, limits)).ok).toBe(false);
    expect(now - from).toBeGreaterThanOrEqual(120_000);
  });

  it('an archive finds zeros in a heap of events too', () => {
    const plan = planChunks(payload, lifetime, nativeSha256);
    const events = [0, 1, 2, 3, 4, 5, 10].map((i) => signerOf(1).sign(plan.draft(i)));
    const found = heapChunks(events, payload.length)(rootOf(payload));
    expect(found && Buffer.compare(found, payload)).toBe(0);
    expect(heapChunks(events.slice(1), payload.length)(rootOf(payload))).toBe(undefined);
  });
});
