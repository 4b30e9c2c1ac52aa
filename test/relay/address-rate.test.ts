import { defaultLimits } from 'nostrain/relay';
import { expect, it } from 'vitest';
import type { Arrival } from '../../relay/event.ts';
import type { PolicySession } from '../../relay/policies.ts';
import { createAddressRate } from '../../relay/policies.ts';

const nothing = Buffer.from('');
const event: Arrival = {
  ...{ id: '', pubkey: '', created_at: 0, kind: 1, tags: [], content: '', sig: '' },
  ...{ json: nothing, hashed: [nothing, nothing] },
};

/** Those of the attempts that were taken, in seconds. */
function taken(attempts: readonly (readonly [address: string, seconds: number])[]): number[] {
  const policy = createAddressRate({ atOnce: 5, perMinute: 5 });
  const passed = attempts.filter(([address, seconds]) => {
    const session: PolicySession = {
      ...{
        number: 0,
        address,
        isNear: false,
        limits: defaultLimits,
        auth: 'none',
        keys: new Set(),
      },
      ...{ nowSeconds: () => seconds, nowMs: () => seconds * 1000, isMine: () => false },
    };
    return policy(event, session) === undefined;
  });
  return passed.map(([, seconds]) => seconds);
}

const often = (address: string, from: number, to: number, every: number) =>
  Array.from({ length: Math.floor((to - from) / every) + 1 }, (_, i) => [address, from + i * every] as const); // biome-ignore format: one list

it('takes five at once, then one every twelve seconds, however often it is asked', () => {
  expect(taken([...often('a', 0, 0.9, 0.1), ...often('a', 1, 40, 1)])).toEqual([
    0, 0.1, 0.2, 0.30000000000000004, 0.4, 12, 24, 36,
  ]);
});

it('gathers no more than five, and counts each address by itself', () => {
  const burst = often('a', 1000, 1000.9, 0.1);
  expect(taken([['a', 0], ...burst])).toHaveLength(1 + 5);
  expect(taken([...often('a', 0, 0.9, 0.1), ['b', 1]])).toHaveLength(5 + 1);
});
