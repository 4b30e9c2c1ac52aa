/** Updates of workers that --peers does not name stay within their byte budget. */

import { createNotifier } from 'nostrain/base';
import type { RelaySet, SignedEvent } from 'nostrain/network';
import type { Contribution } from 'nostrain/run';
import { expect, it } from 'vitest';
import { MAX_UNNAMED_BYTES, openRoundInbox } from '../../../src/network/wire/round-inbox.ts';
import type { RoundReader, RoundRequest } from '../../../src/network/wire/wire.ts';

const payloadBytes = MAX_UNNAMED_BYTES / 4;
const eventOf = (pubkey: string, created_at = 1) => ({ pubkey, created_at }) as SignedEvent;

function open(peers?: readonly string[]) {
  const relays = { subscribe: () => ({ caughtUp: true, close: () => undefined }) };
  const reader = {
    filter: {},
    read: ({ pubkey: worker, created_at: createdAt }: SignedEvent) => {
      const said = { worker, eventId: `${worker}${createdAt}`, round: 0, createdAt, payloadBytes };
      return { ok: true, value: said as Contribution };
    },
    close: () => undefined,
  };
  return openRoundInbox({ round: 0 } as RoundRequest, {
    ...{ peers, relays: relays as unknown as RelaySet, changed: createNotifier() },
    ...{ reader: reader as unknown as RoundReader, onHeard: () => undefined },
    onClose: () => undefined,
  });
}

it('keeps those that came first, refuses the rest by reason, and takes newer ones of who is in', () => {
  const inbox = open();
  for (const key of ['a', 'b', 'c', 'd', 'e']) inbox.take(eventOf(key));
  inbox.take(eventOf('a', 2));
  expect([...inbox.contributions.values()].map(({ eventId }) => eventId)).toEqual([
    ...['a2', 'b1', 'c1', 'd1'],
  ]);
  expect(inbox.rejections).toMatchObject([{ worker: 'e', reason: 'too-large' }]);
});

it('keeps all updates of named workers', () => {
  const peers = ['a', 'b', 'c', 'd', 'e'];
  const inbox = open(peers);
  for (const key of peers) inbox.take(eventOf(key));
  expect(inbox.contributions.size).toBe(5);
});
