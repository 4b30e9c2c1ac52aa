/** Synthetic events in the form that a relay store keeps; unsigned, so that many are cheap to make. */
import type { Entry, Store } from 'nostrain/relay';

export const NOW = 1_700_000_000;

export const hexOf = (number: number) => number.toString(16).padStart(64, '0');

/** As long as that of any event without tags: a store looks at no more of it. */
const someJson = Buffer.from(
  JSON.stringify({ ...{ id: hexOf(0), pubkey: hexOf(0), created_at: NOW, kind: 1000, tags: [], content: '' }, sig: 'b'.repeat(128) }), // biome-ignore format: one event
);

/** Returns an event as a store keeps it. */
export const entryOf = (number: number, author: number, draft: Partial<Entry> = {}): Entry => ({
  ...{ id: hexOf(number), pubkey: hexOf(author), created_at: NOW, kind: 1000, tags: [] },
  ...{ json: someJson, ...draft },
});

export const kept = (store: Store, entries: readonly Entry[]) =>
  entries.filter(({ id }) => store.has(id)).length;
