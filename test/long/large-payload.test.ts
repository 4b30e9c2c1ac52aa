/** A payload of 50 MB in 1,110 chunks over one relay on loopback: sender, relay and receiver in processes of their own. */
import { expect, it } from 'vitest';
import { movePayload } from '../bench/transport/move.ts';

it('50 MB arrive as they were, every chunk verified on the way', async () => {
  const { wireBytes, payloadBytes } = await movePayload(50_000_000); // throws when other bytes come
  expect(wireBytes / payloadBytes).toBeLessThan(1.4);
}, 300_000);
