/** An update that is signed again, with a newer date or with proof of work: what it keeps, and which event is resent. */
import {
  createWire,
  type RelaySet,
  type SubscriptionHandlers,
  verifyEvent,
} from 'nostrain/network';
import { createLayout } from 'nostrain/tensor';
import { assignChunks } from 'nostrain/worker';
import { expect, it } from 'vitest';
import { leadingZeroBits } from '../../../src/network/proof-of-work.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { signerOf } from '../../support/signers.ts';

const RELAY = 'wss://memory.test';
const base = 'b'.repeat(64);

/** A wire with one sealed update, over a relay that has lost all events whenever it comes back. */
async function open(workBits = 0) {
  const clock = createManualClock(1_700_000_000_000);
  const real = createMemoryRelay(RELAY).connect();
  const resent: string[] = [];
  let handlers: SubscriptionHandlers | undefined;
  const relays: RelaySet = {
    ...real,
    subscribe(filters, given, options) {
      handlers ??= given;
      return real.subscribe(filters, given, options);
    },
    query: async (...given) => ({ ...(await real.query(...given)), events: [] }),
    publish: async ({ id }) => {
      resent.push(id);
      return [];
    },
    workFor: () => workBits,
  };
  const layout = createLayout([{ name: 'w', shape: [3] }]);
  const wire = createWire({
    ...{ run: 'r', layout, relays, signer: signerOf(1), clock },
    ...{ ratio: 1, maxContainerBytes: 1e6 },
  });
  const part = { run: 'r', round: 0, base, roster: [], owners: 0, fragments: 1, size: 3 };
  const assignment = assignChunks(part);
  const own = { round: 0, base, steps: 1, examples: 1, assignment, prev: undefined };
  const sealed = await wire.seal({ ...own, delta: Float64Array.of(1, 2, 3) });
  handlers!.onQueried?.(RELAY);
  /** Returns what the relay gets when it comes back. */
  const comesBack = async () => {
    resent.length = 0;
    handlers!.onQueried?.(RELAY);
    await clock.advance(0);
    return resent;
  };
  return { clock, wire, sealed, resent, comesBack };
}

it('has the same content and tags, and a date after the one before even within a second', async () => {
  const { clock, wire, sealed } = await open();
  const { event } = sealed;
  const once = await wire.renew(event);
  expect(once).toMatchObject({ kind: event.kind, content: event.content, tags: event.tags });
  expect(once.created_at).toBe(event.created_at + 1);
  expect(verifyEvent(once).ok).toBe(true);
  await clock.advance(60_000);
  expect((await wire.renew(once)).created_at).toBe(event.created_at + 60);
  await wire.close();
});

it('has the work that relays require by then', async () => {
  const { wire, sealed } = await open(8);
  const bare = { ...sealed.event, tags: sealed.event.tags.filter(([name]) => name !== 'nonce') };
  // an id may have the bits by chance: without the tag they do not count
  expect(wire.lacksWork({ ...bare, id: '0'.repeat(64) })).toBe(true);
  const worked = await wire.renew(bare);
  expect(leadingZeroBits(worked.id)).toBeGreaterThanOrEqual(8);
  expect(wire.lacksWork(worked)).toBe(false);
  await wire.close();
});

it('is resent to relays that come back without it; the event before it never again', async () => {
  const { wire, sealed, comesBack } = await open();
  wire.send(sealed);
  expect(await comesBack()).toEqual([sealed.event.id]);
  const again = { ...sealed, event: await wire.renew(sealed.event) };
  expect(await comesBack()).toEqual([]);
  wire.send(again);
  expect(await comesBack()).toEqual([again.event.id]);
  await wire.close();
});

it('is resent at the end of a run, unless it is on its way', async () => {
  const { wire, sealed, resent } = await open();
  await wire.resend();
  const { settled } = wire.send(sealed);
  await wire.resend();
  expect(resent).toEqual([]);
  await settled;
  await wire.resend();
  expect(resent).toEqual([sealed.event.id]);
  await wire.close();
});
