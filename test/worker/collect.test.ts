import type { NostrainError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import type { Sync } from '../../src/run/aggregation.ts';
import { collect } from '../../src/worker/apply-round.ts';
import { contribution } from '../support/contributions.ts';
import { everything, fakePorts, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const B = 'b'.repeat(64);
const C = 'c'.repeat(64);

/** Collects round 0 with this worker's gradient already in; reports when and why it closed. */
function start(sync: Sync, peers: readonly string[] = [], more: Parameters<typeof plan>[0] = {}) {
  const clock = createManualClock();
  const ports = fakePorts(clock);
  for (const worker of peers) ports.hear({ worker });
  const inbox = ports.wire.openRound({ round: 0, base: B, assignment: everything });
  ports.arrive(contribution('a'.repeat(64), [1]));
  const startMs = clock.now();
  const abort = new AbortController();
  const closed: { reason?: string; error?: NostrainError; afterMs?: number } = {};
  const finished = collect(inbox, 0, {
    plan: plan({ sync, ...more }),
    ports,
    signal: abort.signal,
  }).then(
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
      const { clock, ports, closed } = start({ strategy: 'timeout' }, [], { timeoutSince });
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
    expect(closed.error?.message).toContain('missing bbbbbbbb');
    expect(closed.error?.message).toContain('cccccccc: base-mismatch');
    expect(closed.error?.hint).toContain('--seed');
    expect(closed.afterMs).toBe(10_000);
  });

  it('quorum closes at floor(n/2)+1 of the live workers', async () => {
    const { clock, ports, closed } = start({ strategy: 'quorum' }, [B, C, 'd'.repeat(64)]);
    ports.arrive(contribution(B, [1]));
    await clock.advance(10);
    expect(closed.reason).toBeUndefined();
    ports.arrive(contribution(C, [1]));
    await clock.advance(10);
    expect(closed.reason).toBe('quorum');
  });

  it('quorum does not count workers gone stale or leaving', async () => {
    const { clock, ports, closed } = start({ strategy: 'quorum' }, ['d'.repeat(64)]);
    ports.hear({ worker: B, createdAt: clock.now() / 1000 - 181 });
    ports.hear({ worker: C, leaving: true });
    ports.arrive(contribution('d'.repeat(64), [1]));
    await clock.advance(10);
    expect(closed.reason).toBe('quorum');
  });

  it('quorum that is not reached uses what has arrived at the deadline', async () => {
    const { clock, closed } = start({ strategy: 'quorum' }, [B, C]);
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
