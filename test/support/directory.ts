import { sha256Hex, utf8 } from 'nostrain/base';
import { Contacts, nearest } from '../../src/network/directory/contacts.ts';
import {
  type Lookup,
  type LookupOptions,
  searchDirectory,
} from '../../src/network/directory/directory.ts';
import type { HolderRecord } from '../../src/network/wire/holders.ts';

export const NOW = 1_800_000_000;
export const idOf = (name: string): string => sha256Hex(utf8(name));

/** A record as if it had been verified. */
export const recordOf = (
  name: string,
  held: readonly string[] = [],
  key = idOf(name),
): HolderRecord => ({
  ...{ key, held, region: 'europe', tier: 'known', weight: 1, classes: [], freeBytes: 0 },
  ...{ contacts: [`https://${name.replaceAll(/\W/g, '-')}.example.org`], expiresAt: NOW + 3600 },
  ...{ createdAt: NOW, eventId: idOf(`event of ${name}`) },
  event: { id: '', pubkey: key, created_at: NOW, kind: 37_812, tags: [], content: '', sig: '' },
});

export interface Network {
  readonly records: readonly HolderRecord[];
  readonly tables: ReadonlyMap<string, Contacts>;
  readonly dead: Set<string>;
  /** Asks so far. */
  asks: number;
  ask: LookupOptions['ask'];
  /** A lookup that starts at these contacts. */
  find(target: string, from: readonly HolderRecord[], enough?: number): Promise<Lookup>;
}

/**
 * Holders that came one after the other, each knowing one or three of those before: it looks up its own key, and then tells the nearest of each
 * object it holds that it does.
 */
export async function createNetwork(records: readonly HolderRecord[]): Promise<Network> {
  const tables = new Map(records.map(({ key }) => [key, new Contacts(key)]));
  const dead = new Set<string>();
  const network: Network = {
    records,
    tables,
    dead,
    asks: 0,
    ask: async ({ key }, target) => {
      network.asks++;
      if (dead.has(key)) return undefined;
      return tables.get(key)?.answer(target, NOW);
    },
    find: (target, contacts, enough = 3) =>
      searchDirectory(target, { contacts, ask: network.ask, enough }),
  };
  for (const [i, record] of records.entries()) {
    const before = [7, 31, 101].map((step) => records[(i * step) % Math.max(1, i)]!);
    await join(network, record, i === 0 ? [] : before);
  }
  return network;
}

async function join({ tables, ask }: Network, own: HolderRecord, from: readonly HolderRecord[]) {
  const table = tables.get(own.key)!;
  const hear: LookupOptions['ask'] = async (contact, target) => {
    const answer = await ask(contact, target);
    for (const each of answer ?? []) table.add(each, NOW);
    tables.get(contact.key)?.add(own, NOW);
    return answer;
  };
  for (const each of from) table.add(each, NOW);
  for (const target of [own.key, ...own.held]) {
    const { nearest: found } = await searchDirectory(target, {
      contacts: from,
      ask: hear,
      enough: 0,
    });
    for (const { key } of nearest(found, target, 8)) tables.get(key)!.add(own, NOW);
  }
}
