/** Publishes heartbeats: at once, then whenever this worker has published nothing for an interval, and a goodbye. */
import { within } from '../base/async.ts';
import type { LocalHeartbeat } from '../network/wire/wire.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Session } from './ports.ts';

export type HeartbeatContent = Pick<LocalHeartbeat, 'round' | 'digest' | 'cohort' | 'features'>;

export type HeartbeatPublisher = ReturnType<typeof createHeartbeatPublisher>;

const WAITING_MS = 5000;

/** With more workers than this, all of them together send as many heartbeats as these. */
const CROWD = 64;

/** A relay that is slower than this does not hear the goodbye. */
const FAREWELL_MS = 3000;

/** A number from 0 to 1 that follows from the key. */
const fractionOf = (key: WorkerId): number => Number.parseInt(key.slice(0, 8), 16) / 2 ** 32;

export function createHeartbeatPublisher({ plan, ports }: Session) {
  const { clock, wire, report } = ports;
  const intervalMs = plan.heartbeatSeconds * 1000;
  const stopping = new AbortController();
  let isWaiting = false;
  let expected = 0;
  let content: HeartbeatContent | undefined;
  let running: Promise<void> | undefined;

  /** How many times as rare heartbeats are for how many others are heard: everybody reads those of all. */
  const crowd = () => Math.max(1, Math.ceil(Math.max(expected, wire.heartbeats.size) / CROWD));

  /** Resolves once a relay took it or none did; the run does not wait for that. */
  async function publish(leaving: boolean): Promise<boolean> {
    if (!content) return false;
    const { taken, settled } = wire.sendHeartbeat({
      ...content,
      intervalSeconds: crowd() * plan.heartbeatSeconds,
      examples: undefined,
      fingerprint: plan.fingerprint,
      leaving,
    });
    if (await taken) return true;
    if (leaving || wire.reachable().length === 0) return false;
    const why = (await settled).failed.map(({ relay, message }) => `${relay} ${message}`);
    report({ type: 'notice', message: `no relay took the heartbeat (${why.join('; ')})` });
    return false;
  }

  /** What the first one waits in a crowd, so that those of all do not come together. */
  async function waitForTurn(): Promise<void> {
    const waitMs = crowd() * intervalMs * fractionOf(wire.me);
    await clock.sleep(waitMs, stopping.signal).catch(() => undefined);
    if (!stopping.signal.aborted) void publish(false);
  }

  async function publishWhenSilent(isCrowd: boolean): Promise<void> {
    if (isCrowd) await waitForTurn();
    while (!stopping.signal.aborted) {
      const shortest =
        isWaiting && !wire.isRateLimited ? Math.min(WAITING_MS, intervalMs) : intervalMs;
      const everyMs = crowd() * shortest;
      const dueMs = everyMs - wire.silentMs;
      if (dueMs <= 0) void publish(false);
      await clock.sleep(dueMs <= 0 ? everyMs : dueMs, stopping.signal).catch(() => undefined);
    }
  }

  return {
    update(next: HeartbeatContent): void {
      content = next;
      // who is waited for before the first round says at once that it is there
      const isCrowd = crowd() > 1 && plan.waitFor <= 1;
      const isFew = !isCrowd && !wire.isRateLimited;
      const isFirst = !running && !isCrowd;
      if (isFirst || isFew || plan.heartbeatEachRound) void publish(false);
      running ??= publishWhenSilent(isCrowd);
    },
    /** Sends a heartbeat that says this now, but in a crowd; true as soon as a relay took it. */
    send(next: HeartbeatContent): Promise<boolean> {
      content = next;
      // what is certified is no news in a crowd either
      return expected > CROWD ? Promise.resolve(true) : publish(false);
    },
    /** Sends more often to relays without a rate until told otherwise: some forget what is half a minute old. */
    hurry(waits: boolean): void {
      isWaiting = waits;
    },
    /** So many others are there, as far as the run knows, whoever is heard. */
    expect(members: number): void {
      expected = members;
    },
    publishNow(): void {
      void publish(false);
    },
    async stop(): Promise<void> {
      stopping.abort();
      await running;
      // members of a crowd are not missed, and what each says is read by all
      if (expected <= CROWD) await within(publish(true), FAREWELL_MS, clock);
    },
  };
}
