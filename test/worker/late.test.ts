/** A worker that starts under the name of an existing run: when it is refused, and until when. */

import type { NostrainError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { assertNotLate } from '../../src/worker/peers.ts';
import { fakePorts, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const B = 'b'.repeat(64);

/** A session with a peer's last heartbeat of round 4, and its last gradient, of this age in seconds. */
async function refusal(ages: { readonly heartbeat?: number; readonly gradient?: number }) {
  const clock = createManualClock();
  const nowSeconds = Math.floor(clock.now() / 1000);
  const ports = fakePorts(clock);
  const at = (age: number) => ({ worker: B, round: 3, createdAt: nowSeconds - age });
  if (ages.heartbeat !== undefined) ports.hear({ ...at(ages.heartbeat), intervalSeconds: 60 });
  const stored = ages.gradient === undefined ? [] : [at(ages.gradient)];
  const wire = { ...ports.wire, queryGradients: async () => stored as never };
  const session = {
    plan: plan({ rounds: 9, roundTimeoutMs: 300_000, heartbeatSeconds: 60 }),
    ...{ ports: { ...ports, wire }, signal: new AbortController().signal },
  };
  return assertNotLate(session).then(
    () => undefined,
    (error: NostrainError) => error,
  );
}

describe('a fresh start under the name of a run that was killed without goodbye', () => {
  it('reports how long the name is taken, by the last heartbeat', async () => {
    const error = await refusal({ heartbeat: 20 });
    expect(error).toMatchObject({
      code: 'round/began',
      hint: expect.stringMatching(/--run NAME.*its name is free in 70 s/),
      data: { round: 3, freeInSeconds: 70 },
    });
    expect(await refusal({ heartbeat: 91 })).toBeUndefined();
  });

  it('by the last gradient, which is valid for longer', async () => {
    const error = await refusal({ heartbeat: 20, gradient: 30 });
    expect(error).toMatchObject({ data: { freeInSeconds: 270 } });
    expect(await refusal({ gradient: 301 })).toBeUndefined();
  });
});
