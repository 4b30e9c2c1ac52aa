/** Relays shared out among workers. */
import { describe, expect, it } from 'vitest';
import { relaysOfKey, spreadOver } from '../../../src/network/transport/spread.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';

const relays = Array.from({ length: 10 }, (_, i) => `wss://relay${i}.example`);
const keys = Array.from({ length: 200 }, (_, i) => i.toString(16).padStart(64, '0'));

describe('relays shared out by rendezvous hashing', () => {
  it('gives each key so many, in the order of the list, and all where that is asked', () => {
    const own = relaysOfKey(relays, keys[0]!, 3);
    expect(own).toHaveLength(3);
    expect(own).toEqual(relays.filter((relay) => own.includes(relay)));
    expect(relaysOfKey(relays, keys[0]!, 0)).toEqual(relays);
    expect(relaysOfKey(relays, keys[0]!, 12)).toEqual(relays);
  });

  it('gives relays about as many keys each', () => {
    const counts = relays.map(
      (relay) => keys.filter((key) => relaysOfKey(relays, key, 2).includes(relay)).length,
    );
    // 40 on average
    expect(Math.min(...counts)).toBeGreaterThan(22);
    expect(Math.max(...counts)).toBeLessThan(60);
  });

  it('moves only what a relay had that goes', () => {
    const gone = relays[4]!;
    const left = relays.filter((relay) => relay !== gone);
    for (const key of keys) {
      const before = relaysOfKey(relays, key, 2);
      const after = relaysOfKey(left, key, 2);
      expect(before.filter((relay) => relay !== gone).every((relay) => after.includes(relay))).toBe(
        true,
      );
    }
  });

  it('publishes to its own alone, and leaves a set of as many relays as copies as it is', () => {
    const all = createMemoryRelay('ws://a.example').connect();
    expect(spreadOver(all, keys[0]!, 1)).toBe(all);
    const asked: (readonly string[] | undefined)[] = [];
    const many = {
      ...{ ...all, relays },
      send: (...[, options]: Parameters<typeof all.send>) => {
        asked.push(options?.only);
        return [];
      },
    };
    const event = { id: '', pubkey: '', created_at: 0, kind: 1, tags: [], content: '', sig: '' };
    const spread = spreadOver(many, keys[0]!, 2);
    spread.send(event);
    spread.send(event, { only: ['wss://other.example'] });
    expect(asked).toEqual([relaysOfKey(relays, keys[0]!, 2), ['wss://other.example']]);
    expect(spread.relays).toEqual(asked[0]);
  });
});
