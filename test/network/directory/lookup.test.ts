import { describe, expect, it } from 'vitest';
import { Contacts, isNearer, sharedBits } from '../../../src/network/directory/contacts.ts';
import { searchDirectory } from '../../../src/network/directory/directory.ts';
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
    expect(table.size).toBe(16);
    table.add(recordOf('near', [], `0${idOf('near').slice(1)}`), NOW);
    expect(table.size).toBe(17);
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
    table.add({ ...old, createdAt: NOW + 10, held: [], eventId: '00' }, NOW);
    table.add(old, NOW);
    expect(table.answer(old.key, NOW)[0]!.createdAt).toBe(NOW + 10);
    table.add(recordOf('me'), NOW);
    expect(table.size).toBe(1);
  });

  it('remembers who holds at most 1,024 objects, sixteen of each', () => {
    const table = new Contacts(idOf('me'));
    for (let i = 0; i < 40; i++) table.add(recordOf(`h${i}`, [chunks[0]!]), NOW);
    const held = table.answer(chunks[0]!, NOW).filter((each) => each.held.length > 0);
    expect(held.length).toBeLessThanOrEqual(16 + 16);
    for (let i = 0; i < 1100; i++) table.add(recordOf('one', [idOf(`object ${i}`)]), NOW);
    expect(table.size).toBeLessThanOrEqual(40);
  });
});
