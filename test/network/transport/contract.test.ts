/** The transport suite over our own relay: as it is, in the dialect of others, and at fault. */
import { createRelay, type RelayOptions } from 'nostrain/relay';
import { testTransport } from '../../contract/transport.ts';

const test = (
  name: string,
  options: RelayOptions,
  tooLarge: number | undefined,
  subscriptions = 20,
) => testTransport({ name, start: () => createRelay(options), tooLarge, subscriptions });

const faults = {
  delay: { shape: 'uniform', minMs: 0, maxMs: 40 },
  duplicate: 0.3,
  reorder: 0.3,
  reorderMs: 40,
  oks: true,
} as const;

test('our relay', {}, 2_200_000);
test('our relay as strfry', { strict: 'strfry' }, 70_000);
test('our relay as nostr-rs-relay', { strict: 'nostr-rs-relay' }, 140_000);
test('our relay as nostream', { strict: 'nostream' }, 110_000, 10);
test('our relay with delays, repeats and another order', { seed: 5, faults }, 2_200_000);
