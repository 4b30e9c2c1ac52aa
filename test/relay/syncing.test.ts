import fc from 'fast-check';
import { nip77 } from 'nostr-tools';
import { createRelay, finish, IdList, reconcile } from 'nostrain/relay';
import { expect, test } from 'vitest';
import { openReader } from '../support/raw-reader.ts';
import { eventOf } from '../support/signers.ts';

const idOf = (number: number) => ((number * 2654435761) % 2 ** 32).toString(16).padStart(64, 'a');

function storageOf(numbers: Iterable<number>): nip77.NegentropyStorageVector {
  const storage = new nip77.NegentropyStorageVector();
  for (const number of numbers) storage.insert(1000 + (number % 50), idOf(number));
  storage.seal();
  return storage;
}

const listOf = (numbers: readonly number[]): IdList =>
  IdList.of(numbers.map((n) => ({ id: idOf(n), created_at: 1000 + (n % 50) })));

/** What an independent implementation learns from our answers. */
async function sync(
  mine: nip77.NegentropyStorageVector,
  answer: (message: string) => Promise<string>,
) {
  const have = new Set<string>();
  const need = new Set<string>();
  const side = new nip77.Negentropy(mine);
  let message: string | null = side.initiate();
  for (let round = 0; message !== null && round < 50; round++) {
    message = side.reconcile(
      await answer(message),
      (id) => have.add(id),
      (id) => need.add(id),
    );
  }
  expect(message).toBeNull();
  return { have: [...have].sort(), need: [...need].sort() };
}

test('both sides learn exactly what the other lacks', async () => {
  const numbers = fc.uniqueArray(fc.nat(800), { maxLength: 400 });
  await fc.assert(
    fc.asyncProperty(numbers, numbers, async (ours, theirs) => {
      const list = listOf(theirs);
      const found = await sync(storageOf(ours), async (message) =>
        finish(reconcile(list, message)),
      );
      const without = (a: number[], b: number[]) =>
        a
          .filter((number) => !b.includes(number))
          .map(idOf)
          .sort();
      expect(found).toEqual({ have: without(ours, theirs), need: without(theirs, ours) });
    }),
    { numRuns: 60 },
  );
});

test('thousands of missing events take several rounds', async () => {
  const all = Array.from({ length: 8000 }, (_, i) => i);
  const list = listOf(all);
  const half = all.filter((i) => i % 2 === 0);
  const found = await sync(storageOf(half), async (message) => {
    const answer = finish(reconcile(list, message));
    expect(answer.length).toBeLessThan(2 * 65_000);
    return answer;
  });
  expect(found).toEqual({
    have: [],
    need: all
      .filter((i) => i % 2)
      .map(idOf)
      .sort(),
  });
});

test('a relay answers NEG-OPEN and NEG-MSG, and says what it does not understand', async () => {
  const relay = await createRelay({ nowMs: () => 1_700_000_000_000 });
  const reader = await openReader(relay.url);
  const events = ['a', 'b', 'c'].map((content) => eventOf(content));
  for (const event of events) await reader.publish(event);
  const mine = new nip77.NegentropyStorageVector();
  mine.insert(events[0]!.created_at, events[0]!.id);
  mine.seal();
  let opened = false;
  const { have, need } = await sync(mine, async (message) => {
    const from = reader.frames.length;
    if (opened) reader.say('NEG-MSG', 's', message);
    else reader.say('NEG-OPEN', 's', { kinds: [1000] }, message);
    opened = true;
    const answer = await reader.until(
      (f) => f[0] === 'NEG-MSG' && reader.frames.indexOf(f) >= from,
    );
    return String(answer[2]);
  });
  expect([have, need]).toEqual([[], [events[1]!.id, events[2]!.id].sort()]);
  reader.say('NEG-MSG', 's', '61ff');
  expect((await reader.until((f) => f[0] === 'NEG-ERR'))[2]).toMatch(/^invalid: /);
  reader.say('NEG-MSG', 'nobody', '61');
  const closed = await reader.until((f) => f[0] === 'NEG-ERR' && f[1] === 'nobody');
  expect(closed[2]).toMatch(/^closed: /);
  await reader.close();
  await relay.close();
});
