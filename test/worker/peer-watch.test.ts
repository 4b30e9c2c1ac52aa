import { createNotifier } from 'nostrain/base';
import type { WorkerEvent } from 'nostrain/worker';
import { expect, it } from 'vitest';
import { watchChanges } from '../../src/base/async.ts';
import type { Session } from '../../src/worker/ports.ts';
import { reportPeers } from '../../src/worker/watch.ts';

const [me, bob, carol] = ['a1', 'b2', 'c3'].map((byte) => byte.repeat(32)) as [
  string,
  string,
  string,
];

function stage() {
  const heartbeats = new Map<string, object>();
  const changed = createNotifier();
  const events: WorkerEvent[] = [];
  let nowMs = 1_000_000;
  const session = {
    plan: { maxMissedHeartbeats: 3 },
    ports: {
      clock: { now: () => nowMs },
      wire: { me, heartbeats, changed },
      report: (event: WorkerEvent) => void events.push(event),
    },
  } as unknown as Session;
  const beat = (worker: string, round: number, more: object = {}) =>
    heartbeats.set(worker, {
      ...{ worker, round, intervalSeconds: 10, createdAt: nowMs / 1000, leaving: false },
      ...{ digest: undefined, cohort: undefined, ...more },
    });
  const forget = (worker: string) => heartbeats.delete(worker);
  const told = async () => {
    changed.notify();
    await new Promise((resolve) => setTimeout(resolve));
    return events.splice(0);
  };
  const pass = (ms: number) => {
    nowMs += ms;
  };
  const { check, follow } = reportPeers(session);
  const watch = { follow, ...watchChanges(changed, check) };
  return { watch, beat, told, pass, forget };
}

it('reports every change of every other worker once', async () => {
  const { watch, beat, told, pass } = stage();
  beat(me, 0);
  beat(bob, 0, { digest: 'd0' });
  const arrived = new Map<string, number>();
  watch.follow(0, { arrived: () => arrived });
  expect(await told()).toEqual([
    { type: 'peer', worker: bob, state: 'training', round: 0, digest: 'd0' },
  ]);
  expect(await told()).toEqual([]);

  arrived.set(bob, 57_034).set(me, 57_034);
  beat(carol, 0);
  expect(await told()).toEqual([
    { type: 'peer', worker: bob, state: 'sent', round: 0, eventBytes: 57_034 },
    { type: 'peer', worker: carol, state: 'training', round: 0 },
  ]);

  // ahead of this worker, as at the end of a run
  beat(bob, 1, { digest: 'd1' });
  expect(await told()).toEqual([
    { type: 'peer', worker: bob, state: 'training', round: 1, digest: 'd1' },
  ]);

  watch.follow(1, { arrived: () => new Map() });
  beat(bob, 1, { digest: 'd1' });
  pass(31_000);
  beat(bob, 1, { digest: 'd1' });
  expect(await told()).toEqual([{ type: 'peer', worker: carol, state: 'away', round: 0 }]);

  beat(bob, 1, { leaving: true });
  expect(await told()).toEqual([{ type: 'peer', worker: bob, state: 'away', round: 1 }]);
  await watch.stop();
  beat(carol, 2);
  expect(await told()).toEqual([]);
});

it('reports a new name, and a contribution that comes before any heartbeat', async () => {
  const { watch, beat, told, forget } = stage();
  const arrived = new Map([[carol, 5]]);
  watch.follow(0, { arrived: () => arrived });
  const sent = { type: 'peer', worker: carol, state: 'sent', round: 0, eventBytes: 5 };
  expect(await told()).toEqual([sent]);
  const training = { type: 'peer', worker: bob, state: 'training', round: 0 };
  for (const name of ['Bob', 'Robert']) {
    beat(bob, 0, { name });
    expect(await told()).toEqual([{ ...training, name }]);
  }
  arrived.set(bob, 7);
  expect(await told()).toEqual([{ ...sent, worker: bob, eventBytes: 7, name: 'Robert' }]);
  // one that comes back is reported again
  forget(bob);
  arrived.clear();
  expect(await told()).toEqual([]);
  beat(bob, 0);
  arrived.set(carol, 5);
  expect(await told()).toEqual([training, sent]);
  await watch.stop();
});
