/** Heartbeats and checks of a worker among many others. */
import { expect, it } from 'vitest';
import { createHeartbeatPublisher } from '../../src/worker/heartbeat-publisher.ts';
import { restOf } from '../../src/worker/watch.ts';
import { fakePorts, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const content = { round: 0, digest: 'd'.repeat(64), cohort: undefined };
const names = (count: number) =>
  Array.from({ length: count }, (_, i) => i.toString(16).padStart(64, '0'));

function publisher(heard: number) {
  const clock = createManualClock();
  const ports = fakePorts(clock);
  for (const worker of names(heard)) ports.hear({ worker });
  const session = {
    plan: plan({ heartbeatSeconds: 60 }),
    ports,
    signal: new AbortController().signal,
  };
  return { clock, ports, session, heartbeats: createHeartbeatPublisher(session) };
}

const intervals = (ports: ReturnType<typeof fakePorts>) =>
  ports.heartbeatsSent.map(({ intervalSeconds }) => intervalSeconds);

it('among few workers sends a heartbeat each round and each interval, and a goodbye', async () => {
  const { clock, ports, heartbeats } = publisher(10);
  heartbeats.update(content);
  heartbeats.update({ ...content, round: 1 });
  await clock.advance(130_000);
  expect(intervals(ports)).toEqual([60, 60, 60, 60]);
  expect(await heartbeats.send(content)).toBe(true);
  await heartbeats.stop();
  expect(ports.heartbeatsSent.at(-1)!.leaving).toBe(true);
});

it('among three crowds sends a third as often, from its own offset on, and states the interval', async () => {
  const { clock, ports, heartbeats } = publisher(192);
  heartbeats.update(content);
  heartbeats.update({ ...content, round: 1 });
  const delayMs = (180_000 * Number.parseInt(ports.wire.me.slice(0, 8), 16)) / 2 ** 32;
  await clock.advance(delayMs - 1000);
  expect(intervals(ports)).toEqual([]);
  await clock.advance(362_000);
  expect(intervals(ports)).toEqual([180, 180, 180]);
  await heartbeats.stop();
});

it('knows the members of a run before it hears them, and leaves a crowd without a goodbye', async () => {
  const { clock, ports, heartbeats } = publisher(0);
  heartbeats.expect(256);
  heartbeats.update(content);
  await clock.advance(240_000);
  expect(intervals(ports)).toEqual([240]);
  expect(await heartbeats.send({ ...content, round: 2 })).toBe(true);
  await heartbeats.stop();
  expect(ports.heartbeatsSent).toHaveLength(1);
});

it('pauses between two checks of a crowd, but not among few', async () => {
  const few = publisher(16);
  expect(restOf(few.session)(few.session.signal)).toBeUndefined();
  const many = publisher(17);
  const resting = restOf(many.session)(many.session.signal)!;
  await many.clock.advance(1000);
  await resting;
});

it('checks larger crowds less often, at constant cost, but at least every ten seconds', async () => {
  for (const [heard, seconds] of [
    [1000, 4],
    [5000, 10],
  ] as const) {
    const { clock, session } = publisher(heard);
    let isOver = false;
    const resting = restOf(session)(session.signal)!.then(() => {
      isOver = true;
    });
    await clock.advance(1000 * seconds - 1);
    expect(isOver).toBe(false);
    await clock.advance(1);
    await resting;
  }
});

it('says goodbye for at most three seconds, even if no relay answers', async () => {
  const { clock, ports, heartbeats } = publisher(0);
  heartbeats.update(content);
  await clock.advance(0);
  const never = new Promise<never>(() => undefined);
  Object.assign(ports.wire, { sendHeartbeat: () => ({ taken: never, settled: never }) });
  let isOver = false;
  const stopping = heartbeats.stop().then(() => {
    isOver = true;
  });
  await clock.advance(2999);
  expect(isOver).toBe(false);
  await clock.advance(1);
  await stopping;
});

it('says why no relay took a heartbeat, unless all are away or it says goodbye', async () => {
  const { clock, ports, heartbeats } = publisher(0);
  const failed = [{ relay: 'one', message: 'blocked', isTemporary: false }];
  let reachable = ['one'];
  const settled = Promise.resolve({ accepted: [], failed });
  Object.assign(ports.wire, {
    reachable: () => reachable,
    sendHeartbeat: () => ({ taken: Promise.resolve(false), settled }),
  });
  const refused = async () => {
    expect(await heartbeats.send(content)).toBe(false);
    return ports.events.splice(0);
  };
  const message = 'no relay took the heartbeat (one blocked)';
  expect(await refused()).toEqual([{ type: 'notice', message }]);
  reachable = [];
  expect(await refused()).toEqual([]);
  reachable = ['one'];
  const stopping = heartbeats.stop();
  await clock.advance(0);
  await stopping;
  expect(ports.events).toEqual([]);
});

it('hurries while others wait for it, but not on relays that limit rates', async () => {
  for (const [isRateLimited, seconds] of [
    [false, 5],
    [true, 60],
  ] as const) {
    const clock = createManualClock();
    const ports = fakePorts(clock, { isRateLimited });
    const session = { plan: plan(), ports, signal: new AbortController().signal };
    const heartbeats = createHeartbeatPublisher(session);
    heartbeats.publishNow();
    expect(ports.heartbeatsSent).toEqual([]);
    heartbeats.hurry(true);
    heartbeats.update(content);
    await clock.advance(120_000);
    const [first, second] = ports.heartbeatsSent;
    expect(second!.atMs - first!.atMs).toBe(1000 * seconds);
    await heartbeats.stop();
  }
});
