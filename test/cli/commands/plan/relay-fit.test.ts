import type { RelayReport } from 'nostrain/probe';
import { expect, test } from 'vitest';
import { factsOf, judgeFit } from '../../../../src/cli/commands/plan/relay-fit.ts';
import { type CostInput, roundCost } from '../../../../src/network/wire/cost.ts';
import { gradientEvents } from '../../../../src/python/wire/sizes.ts';

const report: RelayReport = {
  url: 'wss://relay.example',
  auth: { write: false, read: false },
  size: { keptBytes: 65_536, refusedBytes: 102_400, words: 'invalid: too large' },
  rate: { accepted: 5, seconds: 1, throttled: 'rate-limited: slow down' },
  kinds: {},
  filters: { s: 'works', c: 'works' },
  spent: { events: 10, bytes: 1000, seconds: 60 },
};
const facts = (change: Partial<RelayReport>) =>
  factsOf({ report: { ...report, ...change }, verdict: { carries: 'chunks', why: [] } });

test.each([
  // nothing was taken again: what public relays take
  [{}, 5],
  // one every 13 s, or a new count of five every 61 s, or a generous bucket
  [{ againAfterSeconds: 13 }, 5],
  [{ againAfterSeconds: 61 }, 300 / 61],
  [{ againAfterSeconds: 4 }, 15],
  [{ accepted: 1, againAfterSeconds: 60 }, 1],
  [{ accepted: 3 }, 3],
])('a relay that paused at %j takes %d events a minute', (change, perMinute) => {
  expect(facts({ rate: { ...report.rate, ...change } }).perMinute).toBeCloseTo(perMinute, 9);
});

test('one that never paused takes as many as it took; ours takes any number', () => {
  const rate = { accepted: 20, seconds: 1 };
  expect(facts({ rate }).perMinute).toBe(20);
  const stated = { software: 'nostrain-relay', supportedNips: [], limitation: {} };
  expect(facts({ rate, stated }).perMinute).toBe(Number.POSITIVE_INFINITY);
});

test('events between what was kept and what was refused do not count as taken', () => {
  const input: Omit<CostInput, 'payloadBytes'> = {
    whole: gradientEvents,
    ...{ run: 'r', workers: 2, relays: ['wss://relay.example'] },
    ...{ roundSeconds: 600, heartbeatSeconds: 60, stripe: { need: 1, of: 1 } },
  };
  const judged = (payloadBytes: number) => {
    const cost = roundCost({ ...input, payloadBytes });
    return judgeFit(facts({}), { cost, roundSeconds: 600, heartbeatSeconds: 60, workersPerIp: 1 });
  };
  expect(judged(48_000)).toMatchObject({ manifests: true, carries: true, why: [] });
  expect(judged(60_000)).toMatchObject({ manifests: false, carries: false });
  expect(judged(60_000).why[0]).toContain('accepts 65536 bytes (tried)');
});
