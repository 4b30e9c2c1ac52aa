/** How many updates of a worker are sent at once while relays do not answer. */
import { systemClock } from 'nostrain/base';
import { createWire, type PublishOutcome, type RelaySet } from 'nostrain/network';
import { createLayout } from 'nostrain/tensor';
import { assignChunks } from 'nostrain/worker';
import { expect, it } from 'vitest';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { signerOf } from '../../support/signers.ts';

it.each([
  ['single events', 57, 16],
  ['payloads in chunks', 100_000, 2],
])(
  'of %s (%d values) at most %d uploads go on, and none after the wire is closed',
  async (_, size, most) => {
    const signals: (AbortSignal | undefined)[] = [];
    let round = 0;
    const never = new Promise<never>(() => undefined);
    const keep = (how: { signal?: AbortSignal | undefined } = {}): Promise<PublishOutcome> => {
      signals[round] ??= how.signal;
      return never;
    };
    const relays: RelaySet = {
      ...createMemoryRelay('wss://memory.test').connect(),
      send: (_, how) => [keep(how)],
      publish: async (_, how) => [await keep(how)],
    };
    const layout = createLayout([{ name: 'w', shape: [size] }]);
    const wire = createWire({
      ...{ run: 'r', layout, relays, signer: signerOf(1), clock: systemClock },
      ...{ ratio: 1, maxContainerBytes: 1e7, packing: 'int8' },
    });
    const base = 'b'.repeat(64);
    const delta = Float64Array.from({ length: size }, (_, i) => Math.sin(i * i));
    const part = { run: 'r', base, roster: [], owners: 0, fragments: 1, size };
    const going = () => signals.flatMap((signal, i) => (signal?.aborted ? [] : [i]));
    for (; round < most + 2; round++) {
      const assignment = assignChunks({ ...part, round });
      const own = { round, base, steps: 1, examples: 1, assignment, prev: undefined };
      wire.send(await wire.seal({ ...own, delta }));
      await expect.poll(() => signals.length).toBe(round + 1);
      const first = Math.max(0, round + 1 - most);
      expect(going()).toEqual(signals.map((_, i) => i).slice(first));
    }
    await wire.close();
    expect(going()).toEqual([]);
  },
);
