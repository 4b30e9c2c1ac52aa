/** What the inbox of a round keeps, refuses and forgets, whoever floods it. */

import { createNotifier } from 'nostrain/base';
import type { RelaySet, SignedEvent } from 'nostrain/network';
import type { Contribution, Rejection } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { deferred } from '../../../src/base/async.ts';
import { MAX_UNNAMED_BYTES, openRoundInbox } from '../../../src/network/wire/round-inbox.ts';
import type {
  GradientReading,
  Pending,
  RoundReader,
  RoundRequest,
} from '../../../src/network/wire/wire.ts';

const CHUNK_BYTES = 44 * 1024;

/** An event by its author, date and id; `round` is the round it names. */
const eventOf = (pubkey: string, created_at = 1, id = `${pubkey}${created_at}`, round = 0) =>
  ({ pubkey, created_at, id, round }) as unknown as SignedEvent;

interface Given {
  readonly peers?: readonly string[];
  readonly request?: Partial<RoundRequest>;
  readonly payloadBytes?: number;
  read?(event: SignedEvent): GradientReading;
}

const refused = (reason: Rejection['reason'], worker: string): GradientReading => ({
  ok: false,
  rejection: { reason, worker, detail: '' },
});

function open({ peers, request = {}, payloadBytes = 1, read }: Given = {}) {
  const relays = { subscribe: () => ({ caughtUp: true, close: () => undefined }) };
  const heard: string[] = [];
  const contributionOf = ({ pubkey: worker, created_at: createdAt, id: eventId }: SignedEvent) =>
    ({ worker, eventId, round: 0, createdAt, payloadBytes }) as Contribution;
  const reader = {
    filter: {},
    roundOf: (event: { readonly round?: number }) => event.round,
    read: read ?? ((event: SignedEvent) => ({ ok: true, value: contributionOf(event) })),
    close: () => undefined,
  };
  const inbox = openRoundInbox({ round: 0, ...request } as RoundRequest, {
    ...{ peers, relays: relays as unknown as RelaySet, changed: createNotifier() },
    reader: reader as unknown as RoundReader,
    onHeard: ({ pubkey }) => heard.push(pubkey),
    onClose: () => undefined,
  });
  const ids = () => [...inbox.contributions.values()].map(({ eventId }) => eventId);
  return { inbox, ids, heard, contributionOf };
}

/** Readings that wait for `of` chunks each; `finish` delivers the payload of the i-th. */
function pending(of = 1) {
  const all: { finish(value: Contribution): void; isStopped: boolean }[] = [];
  const read = ({ pubkey: worker }: SignedEvent): GradientReading => {
    const { promise: done, settle } = deferred<Awaited<Pending['done']>>();
    const one = {
      finish: (value: Contribution) => settle({ ok: true, value }),
      isStopped: false,
    };
    all.push(one);
    const stop = () => {
      one.isStopped = true;
    };
    return { worker, done, progress: () => ({ have: 0, of }), stop };
  };
  return { all, read };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('of each worker', () => {
  it('counts the newest, of one second the lowest id, in whichever order they arrive', () => {
    const events = [eventOf('a', 1, '1'), eventOf('a', 2, '3'), eventOf('a', 2, '2')];
    for (const order of [
      [0, 1, 2],
      [2, 1, 0],
      [1, 2, 0],
      [2, 0, 1],
    ]) {
      // biome-ignore format: one line
      const { inbox, ids } = open();
      for (const i of order) inbox.take(events[i]!);
      expect(ids()).toEqual(['2']);
    }
  });

  it('counts under async only what is newer than the round that was applied', () => {
    const { inbox, ids } = open({ request: { anyBase: { folded: { a: 3 } } } });
    for (const round of [2, 3]) inbox.take(eventOf('a', 1, `a${round}`, round));
    expect(ids()).toEqual([]);
    inbox.take(eventOf('a', 1, 'a4', 4));
    inbox.take(eventOf('b', 1, 'b0', 0));
    expect(ids()).toEqual(['a4', 'b0']);
  });

  it('hears a sign of life, unless its event shows that it is not of the run', () => {
    const reasons = ['base-mismatch', 'wrong-shape', 'malformed', 'other-run', 'from-the-future', 'worker-key-mismatch'] as const; // biome-ignore format: one line
    const read = ({ pubkey }: SignedEvent) => refused(reasons[Number(pubkey)]!, pubkey);
    const { inbox, heard } = open({ read, peers: reasons.map((_, i) => `${i}`) });
    for (const [i] of reasons.entries()) inbox.take(eventOf(`${i}`));
    inbox.take(eventOf('stranger'));
    expect(heard).toEqual(['0', '1']);
    expect(inbox.rejections.map(({ reason }) => reason)).toEqual([...reasons, 'not-a-member']);
  });
});

describe('a flood', () => {
  it('of large updates keeps those that came first, refuses the rest by reason, and takes newer ones of who is in', () => {
    const { inbox, ids } = open({ payloadBytes: MAX_UNNAMED_BYTES / 4 });
    for (const key of ['a', 'b', 'c', 'd', 'e']) inbox.take(eventOf(key));
    inbox.take(eventOf('a', 2));
    expect(ids()).toEqual(['a2', 'b1', 'c1', 'd1']);
    expect(inbox.rejections).toMatchObject([{ worker: 'e', reason: 'too-large' }]);
  });

  it('keeps all updates of named workers', () => {
    const peers = ['a', 'b', 'c', 'd', 'e'];
    const { inbox } = open({ peers, payloadBytes: MAX_UNNAMED_BYTES / 4 });
    for (const key of peers) inbox.take(eventOf(key));
    expect(inbox.contributions.size).toBe(5);
  });

  it('of keys and of refusals has bounds, and a worker that is in may still replace its update', () => {
    const { inbox } = open();
    for (let i = 0; i < 1030; i++) inbox.take(eventOf(`${i}`));
    inbox.take(eventOf('0', 2));
    expect(inbox.contributions.size).toBe(1024);
    expect(inbox.contributions.get('0:0')?.eventId).toBe('02');
    const bad = open({ read: ({ pubkey }) => refused('malformed', pubkey) }).inbox;
    for (let i = 0; i < 1100; i++) bad.take(eventOf(`${i}`));
    expect(bad.rejections).toHaveLength(1000);
  });

  it('of payloads in chunks: two of one worker, 1,024 in all, and no more bytes than unnamed workers have', () => {
    const one = pending();
    const { inbox } = open({ read: one.read });
    for (let i = 0; i < 5; i++) inbox.take(eventOf('a', i));
    expect(one.all).toHaveLength(2);
    for (let i = 0; i < 1100; i++) inbox.take(eventOf(`${i}`));
    expect([one.all.length, inbox.pulling()]).toEqual([1024, { have: 0, of: 1024 }]);
    const half = pending(Math.ceil(MAX_UNNAMED_BYTES / CHUNK_BYTES / 2) + 1);
    const { inbox: full } = open({ read: half.read });
    for (const key of ['a', 'b', 'c']) full.take(eventOf(key));
    expect(half.all).toHaveLength(2);
    expect(full.rejections).toMatchObject([{ worker: 'c', reason: 'too-large' }]);
  });
});

it('what is given up is stopped and refused once, and what arrives later or after the end counts no more', async () => {
  const { all, read } = pending(3);
  const { inbox, ids, contributionOf } = open({ read });
  for (const key of ['a', 'b']) inbox.take(eventOf(key));
  all[0]!.finish(contributionOf(eventOf('a')));
  await settled();
  expect([ids(), inbox.pulling()]).toEqual([['a1'], { have: 0, of: 3 }]);
  inbox.giveUp();
  expect(all.map(({ isStopped }) => isStopped)).toEqual([false, true]);
  all[1]!.finish(contributionOf(eventOf('b')));
  inbox.take(eventOf('c'));
  inbox.close();
  inbox.take(eventOf('d'));
  all[2]!.finish(contributionOf(eventOf('c')));
  await settled();
  expect([ids(), all.length]).toEqual([['a1'], 3]);
  expect(inbox.rejections).toEqual([
    { worker: 'b', reason: 'payload-missing', detail: '0 of 3 chunks arrived' },
  ]);
});
