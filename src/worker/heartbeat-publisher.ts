/**
 * Publishes heartbeats: one at once, then one whenever this worker has published nothing for an interval, and a goodbye
 * at the end.
 */
import { within } from '../base/async.ts';
import type { LocalHeartbeat } from '../network/wire/wire.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Session } from './ports.ts';

export type HeartbeatContent = Pick<LocalHeartbeat, 'round' | 'digest' | 'cohort' | 'features'>;

export type HeartbeatPublisher = ReturnType<typeof createHeartbeatPublisher>;

const WAITING_MS = 5000;

/**
 * Crowd size: above it heartbeats become rarer, so that all workers together never send more than this many per
 * interval.
 */
const CROWD = 64;

/** Time for relays to accept the goodbye. */
const FAREWELL_MS = 3000;

/** Returns a number from 0 to 1 derived from the key. */
const fractionOf = (key: WorkerId): number => Number.parseInt(key.slice(0, 8), 16) / 2 ** 32;

export function createHeartbeatPublisher({ plan, ports }: Session) {
  const { clock, wire, report } = ports;
  const intervalMs = plan.heartbeatSeconds * 1000;
  const stopping = new AbortController();
  let isWaiting = false;
  let expected = 0;
  let content: HeartbeatContent | undefined;
  let running: Promise<void> | undefined;

  /** Returns the factor on the heartbeat interval in a crowd, since every worker reads every heartbeat. */
  const crowd = () => Math.max(1, Math.ceil(Math.max(expected, wire.heartbeats.size) / CROWD));

  /** Publishes a heartbeat; resolves to whether a relay accepted it. */
  async function publish(leaving: boolean): Promise<boolean> {
    if (!content) return false;
    const { taken, settled } = wire.sendHeartbeat({
      ...content,
      intervalSeconds: crowd() * plan.heartbeatSeconds,
      examples: undefined,
      fingerprint: plan.fingerprint,
      name: plan.name,
      leaving,
    });
    if (await taken) return true;
    if (leaving || wire.reachable().length === 0) return false;
    const why = (await settled).failed.map(({ relay, message }) => `${relay} ${message}`);
    report({ type: 'notice', message: `no relay took the heartbeat (${why.join('; ')})` });
    return false;
  }

  /** Delays the first heartbeat in a crowd, so that not all workers send at once. */
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
      // others wait for this worker before the first round, so it reports at once
      const isCrowd = crowd() > 1 && plan.waitFor <= 1;
      const isFew = !isCrowd && !wire.isRateLimited;
      const isFirst = !running && !isCrowd;
      if (isFirst || isFew || plan.heartbeatEachRound) void publish(false);
      running ??= publishWhenSilent(isCrowd);
    },
    /** Sends a heartbeat with this content now, except in a crowd; resolves to true once a relay accepted it. */
    send(next: HeartbeatContent): Promise<boolean> {
      content = next;
      // in a crowd the certified state is known without heartbeats
      return expected > CROWD ? Promise.resolve(true) : publish(false);
    },
    /**
     * Sends more often to relays without a rate limit while `waits` is true: some relays drop events after half a
     * minute.
     */
    hurry(waits: boolean): void {
      isWaiting = waits;
    },
    /** Sets how many other workers the run expects, whether or not they are heard. */
    expect(members: number): void {
      expected = members;
    },
    publishNow(): void {
      void publish(false);
    },
    async stop(): Promise<void> {
      stopping.abort();
      await running;
      // no goodbye in a crowd: everyone would have to read it
      if (expected <= CROWD) await within(publish(true), FAREWELL_MS, clock);
    },
  };
}
