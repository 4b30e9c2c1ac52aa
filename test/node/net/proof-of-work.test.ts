import { expect, test } from 'vitest';
import { leadingZeroBits } from '../../../src/network/proof-of-work.ts';
import { mine } from '../../../src/node/net/proof-of-work.ts';
import { signerOf } from '../../support/signers.ts';

const signer = signerOf(1);
const draft = {
  pubkey: signer.publicKey,
  kind: 33_334,
  created_at: 1_700_000_000,
  tags: [['t', 'x']],
  content: 'heartbeat',
};
const never = new AbortController().signal;

test('a thread finds a nonce', async () => {
  const mined = await mine(draft, 12, never);
  expect(mined.tags.at(-1)).toEqual(['nonce', expect.any(String), '12']);
  expect(leadingZeroBits(signer.sign(mined).id)).toBeGreaterThanOrEqual(12);
});

test('too much is refused at once', async () => {
  await expect(mine(draft, 21, never)).rejects.toThrow(RangeError);
  await expect(mine({ ...draft, content: 'x'.repeat(2048) }, 1, never)).rejects.toThrow(
    'work on 2194 bytes requested, 2048 is the maximum',
  );
});

test('an abort ends it', async () => {
  const stop = new AbortController();
  const mining = mine(draft, 20, stop.signal);
  stop.abort(new Error('enough'));
  await expect(mining).rejects.toThrow('enough');
  await expect(mine(draft, 1, stop.signal)).rejects.toThrow('enough');
});
