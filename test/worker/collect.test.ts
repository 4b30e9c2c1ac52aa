import type { NostrainError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import type { Sync } from '../../src/run/aggregation.ts';
import { collect } from '../../src/worker/apply-round.ts';
import { contribution } from '../support/contributions.ts';
import {
  everything,
  type FakeOptions,
  type FakePorts,
  fakePorts,
  plan,
} from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const B = 'b'.repeat(64);
const C = 'c'.repeat(64);

interface Given extends FakeOptions {
  readonly plan?: Parameters<typeof plan>[0];
  readonly peers?: readonly string[];
  /** Whether this worker's gradient is already in. */
  readonly hasOwn?: boolean;
}

/** Collects round 0; reports when and why it closed. */
function start(sync: Sync, { plan: more, peers = [], hasOwn = true, ...options }: Given = {}) {
  const clock = createManualClock();
  const ports = fakePorts(clock, options);
  for (const worker of peers) ports.hear({ worker });
  const inbox = ports.wire.openRound({ round: 0, base: B, assignment: everything });
  if (hasOwn) ports.arrive(contribution('a'.repeat(64), [1]));
  const startMs = clock.now();
  const abort = new AbortController();
  const closed: { reason?: string; error?: NostrainError; afterMs?: number } = {};
  const session = { plan: plan({ sync, ...more }), ports, signal: abort.signal };
  const finished = collect(inbox, 0, session).then(
    (reason) => Object.assign(closed, { reason, afterMs: clock.now() - startMs }),
    (error) => Object.assign(closed, { error, afterMs: clock.now() - startMs }),
  );
  return { clock, ports, closed, finished, abort };
}

describe('N-06: collection strategies', () => {
  it.each([
    ['publishing', 10_000],
    ['last-contribution', 16_000],
  ] as const)(
    'timeout since %s closes after %d ms, whatever else arrives',
    async (timeoutSince, ms) => {
      const { clock, ports, closed } = start({ strategy: 'timeout' }, { plan: { timeoutSince } });
      for (let i = 0; closed.afterMs === undefined && i < 300; i++) {
        if (i === 30 || i === 80) ports.arrive(contribution(B, [i]));
        if (i === 60) ports.arrive(contribution(C, [1]));
        ports.noise();
        await clock.advance(100);
      }
      expect(closed).toEqual({ reason: 'timeout', afterMs: ms });
    },
  );

  it('strict closes on the N-th valid gradient', async () => {
    const { clock, ports, closed } = start({ strategy: 'strict', workers: 3 });
    await clock.advance(1000);
    ports.arrive(contribution(B, [1]));
    await clock.advance(1000);
    expect(closed.reason).toBeUndefined();
    ports.arrive(contribution(C, [1]));
    await clock.advance(1);
    expect(closed.reason).toBe('strict');
  });

  it('strict fails at the deadline, naming missing workers and refusals', async () => {
    const { clock, ports, closed } = start({ strategy: 'strict', workers: 3 });
    ports.hear({ worker: B });
    ports.refuse({ reason: 'base-mismatch', worker: C, detail: 'another base' });
    await clock.advance(11_000);
    expect(closed.error?.code).toBe('round/incomplete');
    expect(closed.error?.message).toContain('1 of 3 gradients after 10 s');
    expect(closed.error?.message).toContain('missing npub1hwamhwa');
    expect(closed.error?.message).toContain('npub1enxvenx: base-mismatch');
    expect(closed.error?.hint).toContain('--seed');
    expect(closed.afterMs).toBe(10_000);
  });

  it.each([
    ['a wrong shape among other refusals', ['bad-signature', 'wrong-shape'], {}, '--seed'],
    ['relays, if all of them are at fault', [], { troubles: () => ['one is closed'] }, '--relay'],
    ['absent workers otherwise', ['bad-signature'], {}, 'strict:N'],
  ] as const)('strict blames %s', async (_, reasons, wire, hint) => {
    const { clock, ports, closed } = start({ strategy: 'strict', workers: 2 }, { wire });
    for (const reason of reasons)
      ports.refuse({ worker: undefined, reason: reason as never, detail: 'x' });
    await clock.advance(11_000);
    expect(closed.error?.hint).toContain(hint);
    expect(closed.error?.message).toBe(
      [
        'round 1 has 1 of 2 gradients after 10 s',
        reasons.length > 0 && `refused ${reasons.map((r) => `unknown worker: ${r}`).join(', ')}`,
        hint === '--relay' && 'one is closed',
      ]
        .filter(Boolean)
        .join('; '),
    );
    expect(ports.events.filter(({ type }) => type === 'refused')).toEqual(
      reasons.map((reason) => ({ type: 'refused', round: 0, reason, detail: 'x' })),
    );
  });

  it('quorum closes at floor(n/2)+1 of the live workers', async () => {
    const { clock, ports, closed } = start(
      { strategy: 'quorum' },
      { peers: [B, C, 'd'.repeat(64)] },
    );
    ports.arrive(contribution(B, [1]));
    await clock.advance(10);
    expect(closed.reason).toBeUndefined();
    ports.arrive(contribution(C, [1]));
    await clock.advance(10);
    expect(closed.reason).toBe('quorum');
  });

  it('quorum does not count workers gone stale, leaving or with other settings', async () => {
    const fingerprint = { settings: 'ours', nonDefault: [], shard: '1/1' };
    const { clock, ports, closed } = start(
      { strategy: 'quorum' },
      { peers: ['d'.repeat(64)], plan: { fingerprint } },
    );
    ports.hear({ worker: B, createdAt: clock.now() / 1000 - 181 });
    ports.hear({ worker: C, leaving: true });
    ports.hear({ worker: 'e'.repeat(64), fingerprint: { ...fingerprint, settings: 'other' } });
    ports.arrive(contribution('d'.repeat(64), [1]));
    await clock.advance(10);
    expect(closed.reason).toBe('quorum');
  });

  it('quorum that is not reached uses what has arrived at the deadline', async () => {
    const { clock, closed } = start({ strategy: 'quorum' }, { peers: [B, C] });
    await clock.advance(10_000);
    expect(closed.reason).toBe('timeout');
  });

  it('async uses what the relays already have', async () => {
    const { clock, ports, closed } = start({ strategy: 'async' });
    await clock.advance(10);
    expect(closed.reason).toBeUndefined();
    ports.catchUp();
    await clock.advance(1);
    expect(closed.reason).toBe('async');
  });

  it('without any gradient no strategy closes a round', async () => {
    for (const strategy of ['timeout', 'quorum', 'async'] as const) {
      const { clock, closed } = start({ strategy }, { hasOwn: false });
      await clock.advance(10_000);
      expect(closed.error).toMatchObject({ code: 'round/incomplete', data: { round: 0 } });
    }
  });

  it('at the deadline, payloads that are still on their way are given up and reported', async () => {
    const ports: { refuse?: FakePorts['refuse'] } = {};
    const progress = { have: 0, of: 4 };
    const inbox = {
      pulling: () => progress,
      giveUp: () => ports.refuse!({ worker: B, reason: 'payload-missing', detail: '2 of 4' }),
    };
    const started = start({ strategy: 'timeout' }, { inbox });
    ports.refuse = started.ports.refuse;
    const { clock, closed } = started;
    await clock.advance(4500);
    progress.have = 2;
    await clock.advance(1000);
    const { events } = started.ports;
    const transfers = events.flatMap((event) => (event.type === 'transfer' ? event.have : []));
    expect(transfers).toEqual([0, 2]);
    await clock.advance(4500);
    expect(closed.reason).toBe('timeout');
    expect(events.at(-1)).toMatchObject({ type: 'refused', worker: B, reason: 'payload-missing' });
  });

  it('reports missing workers, and ends at once when stopped', async () => {
    const { clock, ports, closed, abort } = start({ strategy: 'strict', workers: 2 });
    ports.hear({ worker: B });
    await clock.advance(10);
    expect(ports.events.at(-1)).toMatchObject({ type: 'waiting', have: 1, want: 2, missing: [B] });
    abort.abort(new Error('stop'));
    await clock.advance(1);
    expect(closed.error?.message).toBe('stop');
    expect(clock.pending).toBe(0);
  });
});
