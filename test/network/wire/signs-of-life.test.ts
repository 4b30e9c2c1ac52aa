/** Which events count as heartbeats, and which heartbeats are omitted. */

import {
  createRelaySet,
  createWire,
  type ProfileName,
  type SignedEvent,
  type Wire,
} from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createPythonWire } from 'nostrain/python/parts';
import { createRelay } from 'nostrain/relay';
import { assignChunks } from 'nostrain/worker';
import { afterEach, expect, it } from 'vitest';
import { createFakeSockets } from '../../support/fake-sockets.ts';
import { createManualClock, type ManualClock } from '../../support/manual-clock.ts';
import { openOne, PUBLIC, sentWith } from '../../support/one-relay.ts';
import { signerOf } from '../../support/signers.ts';
import { smallLayout } from '../../support/swarm.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const size = smallLayout.size;
const assignment = assignChunks({ ...{ run: 'r', round: 0, base: 'b'.repeat(64), roster: [], owners: 0, fragments: 1, size } }); // biome-ignore format: one line
const base = 'b'.repeat(64);
const pulse = { round: 0, digest: base, cohort: undefined, intervalSeconds: 60 };
const heartbeat = { ...pulse, examples: undefined, leaving: false };
const own = { round: 0, base, steps: 1, examples: 1, assignment, prev: undefined };

const wireOf = (
  clock: ManualClock,
  relays: Parameters<typeof createWire>[0]['relays'],
  index: number,
  profile: ProfileName = 'nostrain/1',
): Wire => {
  const options = {
    ...{ run: 'r', layout: smallLayout, relays, signer: signerOf(index), clock },
    ...{ ratio: 1, maxContainerBytes: 1e6 },
  };
  const wire = profile === 'nostrain/0' ? createPythonWire(options).wire : createWire(options);
  closing.push(() => wire.close());
  return wire;
};

it.each([
  ['nostrain/1', 50],
  ['nostrain/0', 0],
] as const)('%s: a gradient makes its author younger by %d s', async (profile, younger) => {
  const clock = createManualClock();
  const relay = await createRelay({ nowMs: clock.now });
  closing.push(relay.close);
  const [alice, bob] = [1, 2].map((index) =>
    wireOf(clock, createRelaySet([relay.url], { openSocket, clock }), index, profile),
  ) as [Wire, Wire];
  await bob.sendHeartbeat(heartbeat).taken;
  while (!alice.heartbeats.has(bob.me)) await new Promise((resolve) => setImmediate(resolve));
  const before = alice.heartbeats.get(bob.me)!.createdAt;
  await clock.advance(50_000);
  const inbox = alice.openRound({ round: 0, base, assignment });
  closing.push(() => inbox.close());
  await bob.send(await bob.seal({ ...own, delta: new Float64Array(size).fill(1) })).taken;
  while (inbox.contributions.size === 0) await new Promise((resolve) => setImmediate(resolve));
  expect(alice.heartbeats.get(bob.me)).toMatchObject({ createdAt: before + younger, digest: base });
  expect(bob.silentMs).toBe(profile === 'nostrain/1' ? 0 : 50_000);
});

it('a heartbeat in line gives way to the gradient, which says as much', async () => {
  const { clock, sockets, set } = openOne(PUBLIC, { eventsPerMinute: 1 });
  const wire = wireOf(clock, set, 1);
  const answer = async () => {
    await clock.advance(0);
    const events = sentWith(sockets.latest(), 'EVENT').map(([, event]) => event);
    for (const event of events) sockets.latest().hear('OK', (event as { id: string }).id, true, '');
    return events.map((event) => (event as { kind: number }).kind);
  };
  const first = wire.sendHeartbeat(heartbeat);
  expect(await answer()).toEqual([37_811]);
  expect(await first.taken).toBe(true);
  const second = wire.sendHeartbeat(heartbeat);
  await clock.advance(1000);
  const sealed = await wire.seal({ ...own, delta: new Float64Array(size).fill(1) });
  const sending = wire.send(sealed);
  expect(await second.taken).toBe(true);
  await clock.advance(40_000);
  expect(wire.silentMs).toBe(0); // it waits for its turn
  await clock.advance(20_000);
  expect(await answer()).toEqual([37_811, 7810]);
  expect(await sending.taken).toBe(true);
});

it('presence names no relays unless they are to be advertised, and then without user, password and query', async () => {
  const clock = createManualClock();
  const set = createRelaySet(['wss://user:hunter2@relay.example.com/?token=hunter2'], {
    openSocket: createFakeSockets((socket) => socket.accept()).openSocket,
    clock,
  });
  const sent: string[] = [];
  const relays = {
    ...set,
    relays: set.relays,
    workFor: () => 0,
    status: () => set.status(),
    close: () => set.close(),
    subscribe: set.subscribe.bind(set),
    send: (event: SignedEvent) => {
      sent.push(event.content);
      return [];
    },
  };
  const options = {
    ...{ run: 'r', layout: smallLayout, relays, signer: signerOf(1), clock },
    ...{ ratio: 1, maxContainerBytes: 1e6 },
  };
  const silent = createWire(options);
  const advertise = ['wss://a:hunter2@public.example.com/x?token=hunter2'];
  const open = createWire({ ...options, advertise });
  closing.push(() => set.close());
  silent.sendHeartbeat(heartbeat);
  open.sendHeartbeat(heartbeat);
  await clock.advance(0);
  expect(sent.map((content) => JSON.parse(content).relays)).toEqual([
    undefined,
    ['wss://public.example.com/x'],
  ]);
});
