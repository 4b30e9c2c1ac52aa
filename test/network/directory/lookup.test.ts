import { describe, expect, it } from 'vitest';
import {
  Contacts,
  isNearer,
  nearest,
  sharedBits,
} from '../../../src/network/directory/contacts.ts';
import { type LookupOptions, searchDirectory } from '../../../src/network/directory/directory.ts';
import type { HolderRecord } from '../../../src/network/wire/holders.ts';
import { createNetwork, idOf, NOW, recordOf } from '../../support/directory.ts';

const sample = <T>(items: readonly T[], count: number, seed: number): readonly T[] =>
  Array.from({ length: count }, (_, i) => items[(seed * 13 + i * 37) % items.length]!);

/** Chunks that are held by three holders each. */
function holdersOf(count: number, chunks: readonly string[], name = 'holder') {
  const held = Array.from({ length: count }, (): string[] => []);
  chunks.forEach((chunk, i) => {
    for (const step of [0, 1, 2]) held[(i * 7 + step * 23) % count]!.push(chunk);
  });
  return held.map((own, i) => recordOf(`${name} ${i}`, own));
}

const chunks = Array.from({ length: 48 }, (_, i) => idOf(`chunk ${i}`));

describe('the directory of holders', () => {
  it('R-16: finds every chunk among 64 holders within log2(64) + 2 hops, from any three of them', async () => {
    const network = await createNetwork(holdersOf(64, chunks));
    for (const [i, chunk] of chunks.entries()) {
      const { holders, hops } = await network.find(chunk, sample(network.records, 3, i));
      expect(holders.length).toBeGreaterThan(0);
      expect(holders.every(({ held }) => held.includes(chunk))).toBe(true);
      expect(hops).toBeLessThanOrEqual(8);
    }
  });

  it('R-16: finds every chunk that a live holder has while 30 % of the holders are dead', async () => {
    const network = await createNetwork(holdersOf(64, chunks));
    network.records.forEach(({ key }, i) => {
      if (i % 10 < 3) network.dead.add(key);
    });
    const alive = network.records.filter(({ key }) => !network.dead.has(key));
    let found = 0;
    for (const [i, chunk] of chunks.entries()) {
      const isHeld = alive.some(({ held }) => held.includes(chunk));
      const { holders, hops } = await network.find(chunk, sample(network.records, 3, i));
      expect(holders.length > 0).toBe(isHeld);
      expect(hops).toBeLessThanOrEqual(8);
      found += isHeld ? 1 : 0;
    }
    expect(found).toBeGreaterThan(40);
  });

  it('R-16: does so among 1,000 holders with 30 % dead, in few hops', {
    timeout: 120_000,
  }, async () => {
    const network = await createNetwork(holdersOf(1000, chunks));
    network.records.forEach(({ key }, i) => {
      if ((i * 7) % 10 < 3) network.dead.add(key);
    });
    const alive = network.records.filter(({ key }) => !network.dead.has(key));
    for (const [i, chunk] of chunks.entries()) {
      if (!alive.some(({ held }) => held.includes(chunk))) continue;
      const { holders, hops, asks } = await network.find(chunk, sample(alive, 3, i));
      expect(holders.length).toBeGreaterThan(0);
      expect(hops).toBeLessThanOrEqual(12);
      expect(asks).toBeLessThanOrEqual(64);
    }
  });

  it('R-16: a liar costs a bounded number of asks, and what is there is found all the same', async () => {
    const network = await createNetwork(holdersOf(64, chunks));
    const [liar] = network.records;
    const chunk = chunks[5]!;
    const close = (i: number) => `${chunk.slice(0, 60)}${i.toString(16).padStart(4, '0')}`;
    let named = 0;
    let invented = 0;
    const { holders, asks } = await searchDirectory(chunk, {
      contacts: [liar!, network.records[20]!, network.records[40]!],
      enough: 3,
      ask: async (contact, target) => {
        const isInvented = contact.key.startsWith(chunk.slice(0, 60));
        if (isInvented) invented++;
        if (isInvented || contact.key !== liar!.key) return network.ask(contact, target);
        // it names hundreds, all nearer than anybody, that say they hold it and are not there
        return Array.from({ length: 500 }, () => recordOf(`lie ${named}`, [chunk], close(named++)));
      },
    });
    expect(holders).toHaveLength(3);
    expect(invented).toBeLessThanOrEqual(3);
    expect(asks).toBeLessThanOrEqual(64);
  });

  it('R-16: accomplices that answer with more accomplices cost their path and no more asks than the bound', async () => {
    const network = await createNetwork(holdersOf(64, chunks));
    const [liar] = network.records;
    const chunk = chunks[6]!;
    let made = 0;
    const lies = () =>
      Array.from({ length: 20 }, () => {
        const key = `${chunk.slice(0, 56)}${(made++).toString(16).padStart(8, '0')}`;
        return recordOf(`accomplice ${made}`, [], key);
      });
    const { holders, asks } = await searchDirectory(chunk, {
      contacts: [liar!, network.records[20]!, network.records[40]!],
      enough: 2,
      ask: async (contact, target) =>
        contact.key === liar!.key || contact.key.startsWith(chunk.slice(0, 56))
          ? lies()
          : network.ask(contact, target),
    });
    expect(asks).toBeLessThanOrEqual(64);
    expect(holders.length).toBeGreaterThanOrEqual(1);
  });

  /** Searches from two contacts that know nobody and one that names these; returns whom it asked of them. */
  async function askedOf(
    named: readonly HolderRecord[],
    isLive: (record: HolderRecord) => boolean,
    { enough = 99, mostAsks }: { enough?: number; mostAsks?: number } = {},
  ) {
    const contacts = [0, 1, 2].map((i) => recordOf(`start ${i}`));
    const asked: HolderRecord[] = [];
    const ask: LookupOptions['ask'] = async (contact) => {
      if (contacts.includes(contact)) return contact === contacts[0] ? named : [];
      asked.push(contact);
      return isLive(contact) ? [] : undefined;
    };
    const found = await searchDirectory(chunks[0]!, { contacts, ask, enough, mostAsks });
    return { asked, found };
  }
  const close = (i: number, held: readonly string[] = []) =>
    recordOf(`close ${i}`, held, `${chunks[0]!.slice(0, 60)}${i.toString(16).padStart(4, '0')}`);

  it.each([
    [0, 3],
    [2, 7],
  ])(
    'R-16: a contact that names %d live holders and many dead ones is believed %d times',
    async (live, times) => {
      const named = Array.from({ length: 30 }, (_, i) => recordOf(`named ${i}`, [chunks[0]!]));
      const nearestFirst = nearest(named, chunks[0]!, 30);
      const { asked, found } = await askedOf(named, (each) => nearestFirst.indexOf(each) < live);
      expect(asked).toEqual(nearestFirst.slice(0, times));
      expect(found.holders).toEqual(nearestFirst.slice(0, live));
      expect(found.silent).toEqual(nearestFirst.slice(live, times).map(({ key }) => key));
    },
  );

  it('R-16: asks no more than the bound, however many holders answer, and 32 of one answer', async () => {
    const many = Array.from({ length: 500 }, (_, i) => close(i, [chunks[0]!]));
    expect((await askedOf(many, () => true)).asked).toHaveLength(32);
    let made = 0;
    const endless = (mostAsks?: number) =>
      searchDirectory(chunks[0]!, {
        ...{ contacts: [recordOf('one')], enough: 0, mostAsks },
        ask: async () => Array.from({ length: 4 }, () => close(0xffff - made++)),
      });
    expect((await endless()).asks).toBe(64);
    expect(await endless(9)).toMatchObject({ asks: 9, holders: [] });
  });

  it('asks a far holder of the object before near ones without it, and of those the nearest eight', async () => {
    const near = Array.from({ length: 20 }, (_, i) => close(i));
    const far = recordOf('far', [chunks[0]!]);
    const { asked, found } = await askedOf([...near, far], () => true);
    expect(asked).toEqual([far, ...nearest(near, chunks[0]!, 8)]);
    expect(found).toMatchObject({ holders: [far], hops: 2 });
    expect(found.nearest).toHaveLength(12);
    const one = await askedOf([...near, far], () => true, { enough: 1 });
    expect(one.found.holders).toEqual([far]);
    expect(one.found.asks).toBe(4);
  });

  it('ends if no holder has it, and if no contact is known', async () => {
    const network = await createNetwork(holdersOf(64, chunks));
    const nothing = await network.find(idOf('nobody has this'), sample(network.records, 3, 1));
    expect(nothing.holders).toEqual([]);
    expect(nothing.asks).toBeLessThanOrEqual(64);
    expect(await network.find(chunks[0]!, [])).toMatchObject({ asks: 0, hops: 0, holders: [] });
  });

  it('counts a contact that fails as one that does not answer', async () => {
    const ask = () => Promise.reject(new Error('no route'));
    const contact = recordOf('one');
    const found = await searchDirectory(chunks[0]!, { contacts: [contact], ask, enough: 1 });
    expect(found).toMatchObject({ asks: 1, silent: [contact.key], holders: [] });
  });
});

describe('who a holder knows', () => {
  it('measures distance by XOR', () => {
    const [zero, one, high] = ['0'.repeat(64), `${'0'.repeat(63)}1`, `8${'0'.repeat(63)}`];
    expect([sharedBits(zero, one), sharedBits(zero, high), sharedBits(zero, zero)]).toEqual([255, 0, 256]); // biome-ignore format: one line
    expect([isNearer(one, high, zero), isNearer(high, one, zero)]).toEqual([true, false]);
    expect(isNearer(one, one, zero)).toBe(false);
  });

  it('keeps a bucket of each distance, the longest known first, and forgets the expired', () => {
    const own = '0'.repeat(64);
    const table = new Contacts(own);
    const far = Array.from({ length: 40 }, (_, i) =>
      recordOf(`far ${i}`, [], `f${idOf(`${i}`).slice(1)}`),
    );
    for (const each of far) table.add(each, NOW);
    const near = recordOf('near', [], `0${idOf('near').slice(1)}`);
    table.add(near, NOW);
    const known = [...far, near].filter(({ key }) => table.answer(key, NOW)[0]!.key === key);
    expect(known).toEqual([...far.slice(0, 16), near]);
    expect(table.answer(own, NOW)).toEqual(nearest(known, own, 16));
    table.remove(far[0]!.key);
    table.add(far[39]!, NOW);
    expect(table.answer(far[39]!.key, NOW)[0]!.key).toBe(far[39]!.key);
    expect(table.answer(own, NOW + 4000)).toEqual([]);
    table.add({ ...far[30]!, expiresAt: NOW + 9000 }, NOW + 4000);
    expect(table.answer(own, NOW + 4000)).toHaveLength(1);
  });

  it('takes the newer of two records of a key, and never itself', () => {
    const table = new Contacts(idOf('me'));
    const old = recordOf('other', [chunks[0]!]);
    const renewed = { ...old, createdAt: NOW + 10, eventId: '00' };
    for (const each of [old, renewed, old]) table.add(each, NOW);
    for (const target of [old.key, chunks[0]!]) {
      expect(table.answer(target, NOW).map(({ createdAt }) => createdAt)).toEqual([NOW + 10]);
    }
    table.add(recordOf('me'), NOW);
    expect(table.answer(idOf('me'), NOW)).toEqual([renewed]);
  });
});

describe('which holders of an object a holder server remembers', () => {
  /** A server whose buckets are full, so that it knows later holders only by their objects. */
  function full() {
    const table = new Contacts('0'.repeat(64));
    const inBucket = (name: string, held: readonly string[] = []) =>
      recordOf(name, held, `f${idOf(name).slice(1)}`);
    for (let i = 0; i < 16; i++) table.add({ ...inBucket(`old ${i}`), expiresAt: 2 * NOW }, NOW);
    const announce = (name: string, held: readonly string[], source?: string) =>
      table.add(inBucket(name, held), NOW, source);
    const holdersOf = (object: string, now = NOW) => {
      const known = table.answer(object, now).filter(({ held }) => held.includes(object));
      return known.map(({ contacts }) => contacts[0]!.slice(8).split('.')[0]!);
    };
    return { table, inBucket, announce, holdersOf };
  }
  const object = idOf('object');
  const numbered = (count: number, name: string) =>
    Array.from({ length: count }, (_, i) => `${name}-${i}`);

  it('two from one address, and sixteen in total, of which the busiest address loses one to a newcomer', () => {
    const { announce, holdersOf } = full();
    for (const name of numbered(4, 'flood')) announce(name, [object], 'a');
    expect(holdersOf(object)).toEqual(['flood-0', 'flood-1']);
    for (const name of numbered(14, 'single')) announce(name, [object], name);
    announce('newcomer', [object], 'b');
    announce('too-late', [object], 'c');
    expect(holdersOf(object)).toEqual(['flood-1', ...numbered(14, 'single'), 'newcomer']);
  });

  it('never one that this machine looked up itself in favor of an address', () => {
    const { announce, holdersOf } = full();
    for (const name of numbered(20, 'friend')) announce(name, [object]);
    announce('newcomer', [object], 'a');
    expect(holdersOf(object)).toEqual(numbered(16, 'friend'));
  });

  it('none that has expired or does not answer, which make room', () => {
    const { table, inBucket, announce, holdersOf } = full();
    for (const name of numbered(16, 'old')) announce(name, [object]);
    const later = NOW + 3600;
    expect(holdersOf(object, later)).toEqual([]);
    const renewed = { ...inBucket('new', [object]), expiresAt: later + 1 };
    table.add(renewed, later, 'a');
    expect(holdersOf(object)).toEqual(['new']);
    table.remove(renewed.key);
    expect(holdersOf(object)).toEqual([]);
  });

  it('1,024 objects, of which the address with the most loses the oldest, but gets no more itself', () => {
    const { announce, holdersOf } = full();
    const known = (objects: readonly string[]) =>
      objects.filter((each) => holdersOf(each).length > 0);
    announce('victim', [object], 'b');
    const flood = numbered(1100, 'object').map(idOf);
    announce('flood', flood, 'a');
    expect(known(flood)).toEqual(flood.slice(0, 1023));
    const own = [idOf('own 0'), idOf('own 1')];
    announce('other', [own[0]!], 'c');
    announce('friend', [own[1]!]);
    expect(known([object, ...own, ...flood])).toEqual([object, ...own, ...flood.slice(2, 1023)]);
  });
});
