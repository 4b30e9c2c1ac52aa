/**
 * Stores a tab worker's key, spec, state, votes, earlier rounds and text in IndexedDB. Each write is atomic and on disk
 * before its promise resolves, so that a closed tab can resume.
 */
import { CheckpointError } from '../base/errors.ts';
import { KEPT_STATES } from '../certified/features/disclosure.ts';
import type { PrivateStore } from '../certified/features/feature.ts';
import { formatEntry, type Journal, parseEntry } from '../certified/rounds/journal.ts';
import { type CertifiedState, certifiedMembers } from '../certified/state.ts';
import type { Digest } from '../run/ids.ts';
import type { Store } from '../worker/ports.ts';
import { decodeState, encodeState } from '../worker/state-file.ts';

const NAME = 'nostrain';
/** Name of the object store. */
const STORE = 'kept';

export interface TabStorage {
  get(name: string): Promise<unknown>;
  /** Resolves when it is on disk. */
  put(name: string, value: string | Uint8Array | PrivateState): Promise<void>;
  remove(name: string): Promise<void>;
  /** Returns the names that begin with `prefix`. */
  names(prefix: string): Promise<readonly string[]>;
  close(): void;
}

/** Opens the storage of this origin. Throws `tab/storage` if the browser has none, as in some private windows. */
export async function openStorage(): Promise<TabStorage> {
  const database = await new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  }).catch((cause: unknown) => {
    throw unusable('does not open a storage for this page', cause);
  });
  const read = <T>(query: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const request = query(database.transaction(STORE).objectStore(STORE));
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(unusable('cannot read its storage', request.error));
    });
  const write = (change: (store: IDBObjectStore) => void): Promise<void> =>
    new Promise((resolve, reject) => {
      const work = database.transaction(STORE, 'readwrite', { durability: 'strict' });
      change(work.objectStore(STORE));
      work.oncomplete = () => resolve();
      work.onabort = () => reject(unusable('cannot write to its storage', work.error));
    });
  return {
    get: (name) => read((store) => store.get(name)),
    put: (name, value) => write((store) => store.put(value, name)),
    remove: (name) => write((store) => store.delete(name)),
    names: async (prefix) => {
      const range = IDBKeyRange.bound(prefix, `${prefix}\uffff`);
      return (await read((store) => store.getAllKeys(range))).map(String);
    },
    close: () => database.close(),
  };
}

const unusable = (what: string, cause: unknown): CheckpointError =>
  new CheckpointError('tab/storage', `the browser ${what}`, {
    hint:
      'free disk space, and do not use a private window: without storage a worker cannot resume ' +
      'after a reload',
    cause,
  });

/** A private state that may have to be disclosed, with a number that increases with each save. */
interface PrivateState {
  readonly root: Digest;
  readonly bytes: Uint8Array;
  readonly number: number;
}

/** Returns a store of the newest private states; a new one replaces the oldest. */
function privateStates(storage: TabStorage, prefix: string): PrivateStore {
  const keys = Array.from({ length: KEPT_STATES }, (_, i) => `${prefix}/private/${i}`);
  const all = async () =>
    (await Promise.all(keys.map((key) => storage.get(key)))) as (PrivateState | undefined)[];
  return {
    save: async (root, bytes) => {
      const kept = await all();
      const numbers = kept.map((each) => (each?.root === root ? -2 : (each?.number ?? -1)));
      const key = numbers.indexOf(Math.min(...numbers));
      await storage.put(keys[key]!, { root, bytes, number: Math.max(0, ...numbers) + 1 });
    },
    load: async (root) => (await all()).find((each) => each?.root === root)?.bytes,
  };
}

export interface WorkerStorage {
  readonly store: Store<CertifiedState>;
  readonly journal: Journal;
}

/** Returns the storage of the state and votes of the worker with this prefix. */
export function workerStorage(storage: TabStorage, prefix: string): WorkerStorage {
  const at = (name: string) => `${prefix}/${name}`;
  const textAt = async (name: string) => {
    const text = await storage.get(at(name));
    return typeof text === 'string' ? text : undefined;
  };
  return {
    store: {
      load: async (layout) => {
        const bytes = await storage.get(at('state'));
        if (bytes === undefined) return undefined;
        const read =
          bytes instanceof Uint8Array ? decodeState(bytes, layout, certifiedMembers) : 'no bytes';
        if (typeof read !== 'string') return read;
        throw new CheckpointError(
          'run/state',
          `the state in this browser cannot be used: ${read}`,
          {
            hint: 'clear the data of this site to start over with a new key',
          },
        );
      },
      save: (next) => storage.put(at('state'), encodeState(next, certifiedMembers)),
      phase: {
        load: async () => {
          const bytes = await storage.get(at('phase'));
          return bytes instanceof Uint8Array ? bytes : undefined;
        },
        save: (bytes) => storage.put(at('phase'), bytes),
      },
    },
    journal: {
      load: async () => {
        const text = await textAt('votes');
        return text === undefined ? undefined : parseEntry(text);
      },
      save: (entry) => storage.put(at('votes'), formatEntry(entry)),
      states: privateStates(storage, prefix),
      backfill: {
        save: (round, text) => storage.put(at(`past/${round}`), text),
        load: (round) => textAt(`past/${round}`),
        remove: (round) => storage.remove(at(`past/${round}`)),
        sizes: async () => {
          const sizes = new Map<number, number>();
          for (const name of await storage.names(at('past/'))) {
            const round = Number(name.slice(at('past/').length));
            sizes.set(round, (await textAt(`past/${round}`))?.length ?? 0);
          }
          return sizes;
        },
      },
    },
  };
}

/** Returns the prefix of one worker's names; `slot` distinguishes several workers in one browser. */
export const prefixOf = (run: Digest, slot: string): string => `${run}/${slot}`;
