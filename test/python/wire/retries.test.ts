import { expect, it } from 'vitest';
import { publishingMembers, reportPublishing } from '../../../src/python/wire/publishing.ts';
import { recoveryMembers, retryTotals, totalsMembers } from '../../../src/python/wire/retries.ts';

it('tells waits in seconds as they were typed', () => {
  const took = { relay: 'ws://a', attempts: 4, delaysMs: [100.00000000000001, 200, 0.57 * 1000] };
  expect(recoveryMembers(took)).toEqual({
    attempt_count: 4n,
    retry_count: 3n,
    retry_delays: [0.1, 0.2, 0.57],
    recovered_after_retry: true,
  });
});

it('adds up over relays, each named once', () => {
  const at = (relay: string, attempts: number) => ({ relay, attempts, delaysMs: [] });
  const totals = retryTotals([at('b', 3), at('a', 1), at('b', 2), at('c', 2), at('d', 0)]);
  expect(totals).toEqual({ retriedRelays: ['b', 'c'], retries: 4, mostAttempts: 3 });
  expect(totalsMembers(retryTotals([]))).toEqual({
    retried_relays: [],
    total_retry_count: 0n,
    max_attempt_count: 1n,
  });
});

it('counts a relay that loses what it accepts as failed', () => {
  const outcome = { status: 'accepted', message: '', attempts: 1, delaysMs: [] } as const;
  const report = reportPublishing('e', [
    { ...outcome, relay: 'ws://a' },
    { ...outcome, relay: 'ws://b', kept: false, message: 'keeps nothing' },
    {
      ...outcome,
      relay: 'ws://c',
      status: 'refused',
      message: 'blocked: no',
      attempts: 2,
      delaysMs: [250],
    },
  ]);
  expect(publishingMembers(report)).toMatchObject({
    accepted: true,
    accepted_relays: ['ws://a'],
    accepted_count: 1n,
    retried_relays: ['ws://c'],
    total_retry_count: 1n,
    max_attempt_count: 2n,
    failed_relays: [
      { relay: 'ws://b', operation: 'publish', message: 'keeps nothing', retry_count: 0n },
      { relay: 'ws://c', retry_delays: [0.25] },
    ],
    results: [{ relay: 'ws://a', accepted: true, recovered_after_retry: false }],
  });
});
