/**
 * The hash of the first block at or after a moment, once it is final: k of n endpoints must agree on every header that is looked at. Who
 * proposes that block can try several of them; the spec says whether a run lives with that.
 */
import { ChainError } from '../../base/errors.ts';
import type { BeaconSource } from '../../run/beacon-source.ts';
import { assertChain, type ChainAccess, headerAt, waitFinal } from './blocks.ts';
import type { Header } from './header.ts';

/** Blocks of this chain, so many seconds after an outcome. */
export function createBlockBeacon(access: ChainAccess, lagSeconds: number): BeaconSource {
  const { chain, endpoints } = access;
  let isKnown = false;
  return {
    name: `blocks of ${chain} at ${endpoints.all.map(({ name }) => name).join(', ')}`,
    async after(time, signal) {
      if (!isKnown) await assertChain(access, signal);
      isKnown = true;
      const { hash, number } = await firstSince(access, time + lagSeconds, signal);
      return { block: hash, height: number };
    },
  };
}

/** The first block whose time is at least this. */
async function firstSince(
  access: ChainAccess,
  since: number,
  signal: AbortSignal,
): Promise<Header> {
  const height = await waitFinal(access, 0, signal);
  let first = await headerAt(access, height, signal);
  if (first.timestamp < since) {
    const late = since - first.timestamp;
    throw new ChainError(
      'chain/not-final',
      `block ${height} is the last final one, ${late} s too early`,
      { hint: 'wait' },
    );
  }
  // blocks before `below` are too early; steps back double until one is
  let below = 0;
  for (let step = 1; first.number > below; step *= 2) {
    const header = await headerAt(access, Math.max(below, first.number - step), signal);
    if (header.timestamp >= since) first = header;
    else below = header.number + 1;
    if (header.timestamp < since) break;
  }
  while (first.number > below) {
    const header = await headerAt(access, Math.floor((below + first.number) / 2), signal);
    if (header.timestamp >= since) first = header;
    else below = header.number + 1;
  }
  return first;
}
