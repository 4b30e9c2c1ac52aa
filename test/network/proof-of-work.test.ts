import { expect, test } from 'vitest';
import { verifyEvent } from '../../src/network/event.ts';
import { leadingZeroBits, mineDraft } from '../../src/network/proof-of-work.ts';
import { signerOf } from '../support/signers.ts';

test.each([
  ['f'.repeat(64), 0],
  [`7${'f'.repeat(63)}`, 1],
  [`1${'f'.repeat(63)}`, 3],
  [`002f${'0'.repeat(60)}`, 10],
  ['000000000e9d97a1ab09fc381030b346cdd7a142ad57e6df0b46dc9bef6c7e2d', 36], // NIP-13
  ['0'.repeat(64), 256],
])('%s has %i leading zero bits', (id, bits) => expect(leadingZeroBits(id)).toBe(bits));

test('the id has the bits, and the nonce commits to them', () => {
  const signer = signerOf(1);
  const tags = [
    ['t', 'x'],
    ['nonce', '7', '3'],
  ];
  const draft = { kind: 33_334, created_at: 1_700_000_000, tags, content: 'heartbeat' };
  const mined = mineDraft({ ...draft, pubkey: signer.publicKey }, 10);
  expect(mined).toEqual({
    ...draft,
    tags: [
      ['t', 'x'],
      ['nonce', expect.stringMatching(/^\d+$/), '10'],
    ],
  });
  const event = signer.sign(mined);
  expect(verifyEvent(event).ok).toBe(true);
  expect(leadingZeroBits(event.id)).toBeGreaterThanOrEqual(10);
});
