import { createRelay } from 'nostrain/relay';
import { expect, test } from 'vitest';
import { openReader } from '../support/raw-reader.ts';
import { signerOf } from '../support/signers.ts';

const COUNT = 64;
const EACH = 4;

test('64 publishers, 64 subscribers, one relay: everybody gets everything exactly once', async () => {
  const created_at = 1_700_000_000;
  const signers = Array.from({ length: COUNT }, (_, i) => signerOf(i + 1));
  const events = signers.flatMap((signer, i) =>
    Array.from({ length: EACH }, (_, j) =>
      signer.sign({ kind: 1000, created_at, tags: [['t', 'scale']], content: `${i}/${j}` }),
    ),
  );
  const filters = [{ kinds: [1000] }, { '#t': ['scale'] }, {}];
  const authors = signers.map(({ publicKey }) => publicKey);

  const relay = await createRelay();
  const open = () => openReader(relay.url);
  const readers = await Promise.all(Array.from({ length: COUNT }, open));
  const writers = await Promise.all(Array.from({ length: COUNT }, open));
  for (const [i, reader] of readers.entries()) {
    reader.say('REQ', `reader ${i % 8}`, filters[i % 3], { authors, limit: 0 });
  }
  await Promise.all(readers.map((reader) => reader.until((frame) => frame[0] === 'EOSE')));

  for (const [i, event] of events.entries()) writers[i % COUNT]!.say('EVENT', event);
  await Promise.all(
    readers.map(async ({ frames, until }) => {
      await until(() => frames.length > events.length);
      expect(frames.map((frame) => frame[0]).toSorted()).toEqual(
        ['EOSE', ...events.map(() => 'EVENT')].toSorted(),
      );
      const ids = frames.flatMap(([, , event]) => (event as { id: string } | undefined)?.id ?? []);
      expect(new Set(ids)).toEqual(new Set(events.map(({ id }) => id)));
    }),
  );
  for (const { frames, until } of writers) {
    await until(() => frames.length === EACH);
    expect(frames.every(([type, , accepted]) => type === 'OK' && accepted === true)).toBe(true);
  }
  expect(relay.stats()).toMatchObject({
    connections: 2 * COUNT,
    subscriptions: COUNT,
    eventsAccepted: events.length,
    eventsStored: events.length,
  });
  await Promise.all([...readers, ...writers].map((each) => each.close()));
  await relay.close();
});
