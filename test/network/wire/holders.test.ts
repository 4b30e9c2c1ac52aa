/** Which announcements of holders count, and which of several of one key. */

import { buildHolder, createSigner, type SignedEvent } from 'nostrain/network';
import { expect, it } from 'vitest';
import { newestHolders, readHolder } from '../../../src/network/wire/holders.ts';

const NOW = 1_800_000_000;
const DAY = 86_400;
const signer = createSigner(new Uint8Array(32).fill(3));
const offer = {
  ...{ region: 'europe', tier: 'known', weight: 1, classes: [], freeBytes: 1 },
  ...{ contacts: ['https://holder.example.org'], held: [] },
};
const announced = (at: number, seconds = 3600, weight = 1): SignedEvent =>
  signer.sign(buildHolder({ ...offer, weight }, at, seconds));

it.each([
  ['a quarter of an hour ahead', announced(NOW + 900), undefined],
  ['further ahead', announced(NOW + 901), 'from-the-future'],
  ['until a second from now', announced(NOW - 3599), undefined],
  ['until now', announced(NOW - 3600), 'expired'],
  ['for 30 days', announced(NOW, 30 * DAY), undefined],
])('an announcement %s: %s', (_, event, code) => {
  const read = readHolder(event, NOW);
  expect(read.ok ? undefined : read.issue.code).toBe(code);
});

it('lasts at most 30 days, whatever its author asks or signs', () => {
  const [year] = [announced(NOW, 365 * DAY)];
  expect(readHolder(year!, NOW)).toMatchObject({ ok: true, value: { expiresAt: NOW + 30 * DAY } });
  const { id, pubkey, sig, ...draft } = announced(NOW, 30 * DAY);
  const tags = draft.tags.map((tag) =>
    tag[0] === 'expiration' ? ['expiration', `${NOW + 30 * DAY + 1}`] : tag,
  );
  expect(readHolder(signer.sign({ ...draft, tags }), NOW)).toMatchObject({
    issue: { code: 'too-long' },
  });
});

it('of several of one key the newest counts, in whichever order they arrive', () => {
  const [old, renewed] = [announced(NOW - 9, 3600, 1), announced(NOW - 8, 3600, 2)] as const;
  for (const events of [
    [old, renewed],
    [renewed, old],
  ]) {
    expect(newestHolders(events, NOW).get(signer.publicKey)?.weight).toBe(2);
  }
});
