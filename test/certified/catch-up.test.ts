/** How long a newcomer waits for data that relays do not send. */

import { collectEvents, toCheckpointClaim } from 'nostrain/certified/parts';
import { chunk } from 'nostrain/kinds';
import { runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { queryRelays } from '../../src/network/transport/query.ts';
import { certifiedRounds, certifiedSpec, rootsOf } from '../support/certified-swarm.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createMemoryRelay } from '../support/memory-relays.ts';
import { signerOf } from '../support/signers.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

const HOUR = 3600;

describe('a newcomer', () => {
  it('waits two minutes for the chunks of the newest checkpoint, then uses the previous one', async () => {
    const spec = certifiedSpec({
      ...{ founders: [0, 1], rounds: 12, document: { checkpoint: { every: 2, keep: 3 } } },
      timing: { graceMinMs: 90_000, graceMaxMs: 90_000 },
    });
    const swarm = createTimedSwarm(spec, 60);
    const members = [0, 1].map((index) => swarm.start({ index }));
    await swarm.secondsUntil(() => certifiedRounds(members[0]!).length === 5, HOUR);
    const newest = swarm.events
      .flatMap((event) => toCheckpointClaim(event, runIdOf(spec)) ?? [])
      .reduce((a, b) => (b.round > a.round ? b : a));
    expect(newest.round).toBe(3);
    const isLost = ({ kind, tags }: (typeof swarm.events)[number]) =>
      kind === chunk.kind && tags.some(([, value]) => value === newest.modelRoot);
    expect(swarm.events.some(isLost)).toBe(true);
    const newcomer = swarm.start({
      ...{ index: 2, fetchesCheckpoint: true },
      relays: swarm.connect((event) => !isLost(event)),
    });
    const isTold = () =>
      newcomer.events.some(
        (event) =>
          event.type === 'notice' &&
          event.message === 'the chunks of the checkpoint after round 4 did not arrive',
      );
    const seconds = await swarm.secondsUntil(isTold, HOUR);
    // plus some tenths of a second for queries
    expect([120, 121]).toContain(seconds);
    await swarm.finish([...members, newcomer], HOUR);
    expect(certifiedRounds(newcomer)[0]!.index).toBe(2);
    expect(rootsOf(newcomer)).toEqual(rootsOf(members[0]!).slice(2));
  });
});

describe('reading what relays have of a run', () => {
  it('uses what arrived from a relay that never sends EOSE, after a minute', async () => {
    const clock = createManualClock();
    const relay = createMemoryRelay('ws://memory.test');
    const event = signerOf(1).sign({ kind: 1, created_at: 1, tags: [], content: '' });
    relay.put(event);
    const usual = relay.connect();
    const silent: typeof usual = {
      ...usual,
      subscribe: (filters, { onEvent }) => usual.subscribe(filters, { onEvent }),
      query: (filters, options) => queryRelays(filters, options, silent, clock),
    };
    const found: unknown[] = [];
    let isDone = false;
    const { signal } = new AbortController();
    const collecting = collectEvents([{ kinds: [1] }], { relays: silent, signal, clock }, (one) =>
      found.push(one),
    ).then(() => {
      isDone = true;
    });
    await clock.advance(59_999);
    expect([found, isDone]).toEqual([[event], false]);
    await clock.advance(1);
    expect(isDone).toBe(true);
    await collecting;
  });
});
