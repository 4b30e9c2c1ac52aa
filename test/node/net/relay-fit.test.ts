/** What a run asks of its relays before it starts. */

import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import { assertRelaysFit } from '../../../src/node/net/relays.ts';

const opened: Relay[] = [];
afterEach(async () => {
  for (const relay of opened.splice(0)) await relay.close();
});

const { signal } = new AbortController();
const size = { payloadBytes: 44_000, eventBytes: 60_000 };

/** Addresses of relays, the small ones saying so. */
async function relaysOf(...kinds: readonly ('small' | 'large')[]): Promise<readonly string[]> {
  const all = await Promise.all(
    kinds.map((kind) => createRelay(kind === 'small' ? { maxEventBytes: 16_384 } : {})),
  );
  opened.push(...all);
  return all.map(({ url }) => url);
}

describe('relays that state limits', () => {
  it('attack: one that states a small limit does not keep a run from starting', async () => {
    const notices: string[] = [];
    const onNotice = (message: string) => void notices.push(message);
    const urls = await relaysOf('large', 'small');
    await assertRelaysFit(urls, size, undefined, { signal, onNotice });
    expect(notices).toEqual([
      `${urls[1]} accepts 16 kB, the largest event of this run is about 60 kB: these relays get smaller events only`,
    ]);
  });

  it.each([
    ['all are small', ['small', 'small'], undefined],
    ['too few are left for a stripe', ['large', 'small', 'small'], { data: 2, parity: 1 }],
    ['those left get the same part', ['large', 'small', 'small', 'large'], { data: 2, parity: 1 }],
  ] as const)('a run does not start where %s', async (_, kinds, erasure) => {
    const urls = await relaysOf(...kinds);
    const onNotice = () => expect.unreachable();
    await expect(assertRelaysFit(urls, size, erasure, { signal, onNotice })).rejects.toMatchObject({
      code: 'relay/too-small',
    });
  });

  it('a stripe is whole without a small one', async () => {
    const urls = await relaysOf('large', 'small', 'large');
    const onNotice = () => undefined;
    await assertRelaysFit(urls, size, { data: 2, parity: 1 }, { signal, onNotice });
  });
});
