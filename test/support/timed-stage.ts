/**
 * Runs workers over relays in memory on a clock that jumps to the next due timer once all messages are delivered. A
 * test reads like one over real relays, and its waits take no real time.
 */

import type { Clock } from 'nostrain/base';
import type { OpenSocket } from 'nostrain/network';
import type { CoreOptions } from 'nostrain/relay';
import { afterEach, beforeEach } from 'vitest';
import { createManualClock } from './manual-clock.ts';
import { createMemoryNetwork, type LocalRelay, type MemoryNetwork } from './memory-network.ts';

export interface TimedStage<Options, Member> {
  /** The clock of the running test. */
  readonly clock: Clock;
  /** Connects to its relays. */
  readonly openSocket: OpenSocket;
  /** Opens a relay. */
  relay(options?: CoreOptions): LocalRelay;
  /** Starts a worker on the clock. */
  start(options: Options): Member;
  /** Waits until it holds; rejects after this many seconds of the clock. */
  until(holds: () => boolean, seconds?: number): Promise<void>;
  /** Gives events to a relay as they are, whatever is wrong with them. */
  publish(url: string, events: readonly unknown[]): Promise<void>;
}

interface Timed {
  readonly clock?: Clock;
  readonly openSocket?: OpenSocket;
}

/** Longest time of the clock that one test plays. */
const MAX_SECONDS = 24 * 3600;

/** Call it where tests are declared. Workers stop when their test is over. */
export function createTimedStage<Options extends Timed, Member extends { stop(): void }>(
  startMember: (options: Options) => Member,
): TimedStage<Options, Member> {
  let network: MemoryNetwork;
  let clock: Clock & { stop(): void };
  const started: Member[] = [];
  beforeEach(() => {
    clock = createEagerClock(() => network.moved);
    network = createMemoryNetwork(() => clock.now());
  });
  afterEach(() => {
    for (const member of started.splice(0)) member.stop();
    clock.stop();
  });
  return {
    get clock() {
      return clock;
    },
    openSocket: (url) => network.openSocket(url),
    relay: (options) => network.relay(options),
    start(options) {
      const member = startMember({ clock, openSocket: network.openSocket, ...options });
      started.push(member);
      return member;
    },
    async until(holds, seconds = 3600) {
      const endMs = clock.now() + 1000 * seconds;
      while (!holds()) {
        if (clock.now() > endMs) throw new Error(`not within ${seconds} seconds`);
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    publish: (url, events) =>
      new Promise((resolve) => {
        const socket = network.openSocket(url);
        let answers = 0;
        socket.onopen = () => {
          for (const event of events) socket.send(JSON.stringify(['EVENT', event]));
        };
        socket.onmessage = () => {
          if (++answers < events.length) return;
          socket.close();
          resolve();
        };
      }),
  };
}

/** Turns of the event loop without a message after which nothing more happens at this time of the clock. */
const QUIET_TURNS = 5;

/** Wakes the next sleeper as soon as messages have stopped moving. */
function createEagerClock(moved: () => number): Clock & { stop(): void } {
  const settle = async () => {
    for (let [turns, seen] = [0, moved()]; turns < QUIET_TURNS; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (moved() !== seen) [turns, seen] = [0, moved()];
    }
  };
  const clock = createManualClock(undefined, settle);
  let endMs = clock.now() + 1000 * MAX_SECONDS;
  let isRunning = false;
  async function run(): Promise<void> {
    isRunning = true;
    while (clock.pending > 0 && (await clock.wakeNext(endMs)));
    isRunning = false;
  }
  return {
    now: clock.now,
    sleep(ms, signal) {
      const sleeping = clock.sleep(ms, signal);
      if (!isRunning) void run();
      return sleeping;
    },
    // connections that are closing wait a second
    stop: () => {
      endMs = clock.now() + 10_000;
    },
  };
}
