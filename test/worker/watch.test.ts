/** What a worker reports while it trains: peers with other bits, relays that are away, a second process with its key. */

import type { Heartbeat } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { watchRun } from '../../src/worker/watch.ts';
import { fakePorts, ME, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const B = 'b'.repeat(64);
const [ours, theirs] = ['1'.repeat(64), '2'.repeat(64)];

function stage() {
  const clock = createManualClock();
  const seen = { reachable: ['one'], isKeyInUse: false, answers: 0 };
  const fingerprint = { settings: 'ours', nonDefault: [], shard: '1/1' };
  const wire = { reachable: () => seen.reachable, troubles: () => ['one is closed'] };
  const ports = fakePorts(clock, { wire });
  Object.defineProperty(ports.wire, 'isKeyInUse', { get: () => seen.isKeyInUse });
  const session = { plan: plan({ fingerprint }), ports, signal: new AbortController().signal };
  const watch = watchRun(session, () => seen.answers++);
  const told = async (ms = 0) => {
    ports.noise();
    await clock.advance(ms);
    return ports.events.splice(0).filter(({ type }) => type !== 'peer');
  };
  const hear = (more: Partial<Heartbeat>) =>
    ports.hear({ worker: B, round: 1, digest: theirs, fingerprint, ...more });
  const remember = (round: number) => watch.remember({ round, digest: ours, cohort: [ME] });
  return { seen, watch, told, hear, remember };
}

describe('a watch over a run', () => {
  it('reports a peer with other bits once a round, if it trains the same and the round is recent', async () => {
    const { watch, told, hear, remember } = stage();
    remember(1);
    hear({ cohort: [ME, B] });
    const divergence = { type: 'divergence', round: 1, peer: B, ours, theirs, firstDiffering: B };
    expect(await told()).toEqual([divergence]);
    hear({ cohort: [ME] });
    expect(await told()).toEqual([]);
    remember(2);
    const other = { settings: 'other', nonDefault: [], shard: '1/1' };
    for (const more of [{ digest: ours }, { worker: ME }, { digest: undefined }]) {
      hear({ round: 2, ...more });
      expect(await told()).toEqual([]);
    }
    hear({ round: 2, fingerprint: other });
    expect((await told()).map(({ type }) => type)).toEqual(['notice']);
    hear({ round: 2 });
    expect((await told()).map(({ type }) => type)).toEqual(['divergence']);
    for (let round = 3; round <= 18; round++) remember(round);
    hear({ round: 2, digest: '3'.repeat(64) });
    expect(await told()).toEqual([]);
    hear({ round: 3 });
    await watch.stop();
    expect((await told()).map(({ type }) => type)).toEqual(['divergence']);
  });

  it('compares the slices that both have, in a run with tiers', async () => {
    const { watch, told, hear } = stage();
    const other = '3'.repeat(64);
    const rings = (...all: readonly string[]) => ({ features: { widths: { rings: all } } });
    watch.remember({ round: 1, digest: ours, cohort: [], ...rings(ours, theirs) });
    for (const more of [rings(ours), rings(ours, theirs), rings(ours, theirs, other)]) {
      hear({ digest: ours, ...more });
      expect(await told()).toEqual([]);
    }
    hear({ digest: ours, ...rings(ours, other) });
    const divergence = { type: 'divergence', round: 1, peer: B, ours: theirs, theirs: other };
    expect(await told()).toEqual([divergence]);
    await watch.stop();
  });

  it('reports that all relays are away and when one is back, and again only after a minute', async () => {
    const { seen, watch, told } = stage();
    const toggled = async (isAway: boolean, ms: number) => {
      seen.reachable = isAway ? [] : ['one'];
      return (await told(ms)).length;
    };
    const counts = [];
    for (const [isAway, ms] of [
      [false, 0],
      [true, 0],
      [true, 0],
      [false, 0],
      [true, 0],
      [false, 60_000],
      [true, 0],
    ] as const) {
      // biome-ignore format: one line
      counts.push(await toggled(isAway, ms));
    }
    expect(counts).toEqual([0, 1, 0, 1, 0, 0, 1]);
    await watch.stop();
  });

  it('answers another process with its key once, after four seconds', async () => {
    const { seen, watch, told } = stage();
    seen.isKeyInUse = true;
    expect(await told(3999)).toMatchObject([{ type: 'notice', message: expect.stringContaining('--key-file') }]); // biome-ignore format: one line
    expect(seen.answers).toBe(0);
    expect(await told(10_000)).toEqual([]);
    expect(seen.answers).toBe(1);
    await watch.stop();
  });
});
