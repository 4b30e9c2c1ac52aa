import { createRelay } from 'nostrain/relay';
import { describe, expect, test } from 'vitest';
import { createFaultPlan } from '../../relay/faults/plan.ts';
import type { FaultSettings } from '../../relay/faults/settings.ts';
import { openReader } from '../support/raw-reader.ts';
import { signerOf } from '../support/signers.ts';

const NOW = 1_700_000_000;
const CONNECTIONS = 4;
const PUBLISHED = 6;
const events = Array.from({ length: CONNECTIONS * PUBLISHED }, (_, i) =>
  signerOf(1).sign({ kind: 1000, created_at: NOW, tags: [], content: `${i}` }),
);

/** Everything a few connections hear, one after the other; on each some events are published and asked for. */
async function transcript(faults: FaultSettings, seed: number): Promise<unknown[]> {
  const relay = await createRelay({ faults, seed, policies: [], nowMs: () => NOW * 1000 });
  const heard: unknown[] = [];
  for (let connection = 0; connection < CONNECTIONS; connection++) {
    const reader = await openReader(relay.url).catch(() => undefined);
    if (!reader) {
      heard.push('no connection');
      continue;
    }
    let isOpen = true;
    void reader.closed.then(() => {
      isOpen = false;
    });
    for (let i = 0; i < PUBLISHED && isOpen; i++) {
      const event = events[connection * PUBLISHED + i]!;
      reader.say('EVENT', event);
      reader.say('REQ', `r${i}`, { ids: [event.id] });
      // faults do not touch the answer to COUNT: what came before it is all that comes
      reader.say('COUNT', `c${i}`, {});
      await Promise.race([
        reader.until((frame) => frame[0] === 'COUNT' && frame[1] === `c${i}`),
        reader.closed,
      ]);
    }
    heard.push(reader.frames);
    await reader.close();
  }
  const { connections, bytesIn, mostWorkPerTurn, ...counts } = relay.stats();
  await relay.close();
  return [...heard, { ...counts, bytesIn: bytesIn > 0 }];
}

/** One setting of every fault, and whether chance decides, or a count, or only when things arrive changes. */
const cases: readonly (readonly [FaultSettings, 'drawn' | 'counted' | 'timed'])[] = [
  [{ drop: 0.5 }, 'drawn'],
  [{ duplicate: 0.5 }, 'drawn'],
  [{ drop: 0.5, oks: true }, 'drawn'],
  [{ swallow: 0.5 }, 'drawn'],
  [{ discard: 0.5 }, 'drawn'],
  [{ disconnect: 0.1 }, 'drawn'],
  [{ forge: 0.5 }, 'drawn'],
  [{ postdate: 0.5 }, 'drawn'],
  [{ falseEose: 0.5 }, 'drawn'],
  [{ noEose: 0.5 }, 'drawn'],
  [{ refuseConnections: 2 }, 'counted'],
  [{ disconnectAfter: 5 }, 'counted'],
  [{ throttle: 3 }, 'counted'],
  [{ bandwidth: 1_000_000 }, 'timed'],
];

describe('the same seed makes a relay fail the same way', () => {
  test.each(cases)('%j', async (faults, how) => {
    const first = await transcript(faults, 1);
    expect(await transcript(faults, 1)).toEqual(first);
    if (how === 'timed') return; // `faults.test.ts` shows that it is slow
    expect(first).not.toEqual(await transcript({}, 1));
    if (how === 'counted') return;
    const others = [await transcript(faults, 2), await transcript(faults, 3)];
    expect(others.some((other) => JSON.stringify(other) !== JSON.stringify(first))).toBe(true);
  });

  const timed: readonly FaultSettings[] = [
    { delay: { shape: 'uniform', minMs: 10, maxMs: 50 } },
    { delay: { shape: 'normal', meanMs: 50, deviationMs: 10 } },
    { delay: { shape: 'exponential', meanMs: 20, maxMs: 100 } },
    { reorder: 0.5, reorderMs: 60 },
  ];
  test.each(timed)('%j', (faults) => {
    const fates = (seed: number, connection = 0) => {
      const plan = createFaultPlan(faults, seed, connection);
      return Array.from({ length: 100 }, () => plan());
    };
    expect(fates(1)).toEqual(fates(1));
    expect(fates(1)).not.toEqual(fates(2));
    expect(fates(1)).not.toEqual(fates(1, 1));
  });
});

test('a normal delay is spread around its mean and never negative', () => {
  const plan = createFaultPlan({ delay: { shape: 'normal', meanMs: 50, deviationMs: 10 } }, 1, 0);
  const all = Array.from({ length: 4000 }, () => plan()[0]!);
  const mean = all.reduce((sum, ms) => sum + ms, 0) / all.length;
  const variance = all.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / all.length;
  expect(mean).toBeCloseTo(50, 0);
  expect(Math.sqrt(variance)).toBeGreaterThan(9.5);
  expect(Math.sqrt(variance)).toBeLessThan(10.5);
  const wide = createFaultPlan({ delay: { shape: 'normal', meanMs: 1, deviationMs: 50 } }, 1, 0);
  expect(Math.min(...Array.from({ length: 100 }, () => wide()[0]!))).toBe(0);
});

test('a discarded event is neither stored nor delivered', async () => {
  const relay = await createRelay({ faults: { discard: 1 }, policies: [] });
  const reader = await openReader(relay.url);
  reader.say('REQ', 'live', {});
  expect(await reader.publish(events[0]!)).toEqual(['OK', events[0]!.id, true, '']);
  reader.say('REQ', 'stored', {});
  await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === 'stored');
  expect(reader.frames.some((frame) => frame[0] === 'EVENT')).toBe(false);
  expect(relay.stats()).toMatchObject({ eventsDiscarded: 1, eventsStored: 0 });
  await reader.close();
  await relay.close();
});

test('an EOSE that never comes leaves a subscription that works', async () => {
  const relay = await createRelay({ faults: { noEose: 1 }, policies: [] });
  const reader = await openReader(relay.url);
  await reader.publish(events[0]!);
  reader.say('REQ', 'a', {});
  await reader.until((frame) => frame[0] === 'EVENT');
  await reader.publish(events[1]!);
  await reader.until((frame) => (frame[2] as { id?: string })?.id === events[1]!.id);
  expect(reader.frames.some((frame) => frame[0] === 'EOSE')).toBe(false);
  expect(relay.stats().eosesWithheld).toBe(1);
  await reader.close();
  await relay.close();
});
