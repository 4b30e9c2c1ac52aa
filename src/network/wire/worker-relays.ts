/**
 * Finds relays through events: relay lists (NIP-65), relay hints (NIP-01), and relays that workers name. Private
 * addresses are dropped.
 */
import { presence } from '../../../kinds/presence.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Filter } from '../transport/frames.ts';
import type { QueryOptions, QueryResult } from '../transport/query.ts';
import { hintProblem, isRelayUrl, withoutSecrets } from '../transport/relay-urls.ts';

/** Relays that a key reads from and writes to, as `parseRelayList` returns them. */
export interface RelayList {
  readonly read: readonly string[];
  readonly write: readonly string[];
}

const RELAY_LIST_KIND = 10_002;
/** Maximum relays read from a list; NIP-65 recommends two to four. */
const MAX_RELAYS = 16;
const MAX_URL_LENGTH = 256;

/** Returns a relay list with all of these for reading and writing, without secrets. */
export const buildRelayList = (urls: readonly string[], createdAt: number): EventDraft => ({
  kind: RELAY_LIST_KIND,
  created_at: createdAt,
  tags: urls.map((url) => ['r', withoutSecrets(url)]),
  content: '',
});

/** Returns the usable addresses of a verified event, or undefined if it is not a relay list. */
export function parseRelayList({ kind, tags }: EventDraft): RelayList | undefined {
  if (kind !== RELAY_LIST_KIND) return undefined;
  const usable = tags.filter(([name, url]) => name === 'r' && isUsable(url)).slice(0, MAX_RELAYS);
  const forUse = (use: string) => [
    ...new Set(usable.filter(([, , only]) => !only || only === use).map(([, url]) => url!)),
  ];
  return { read: forUse('read'), write: forUse('write') };
}

/** Returns the relay hints of the events, authors and addresses that an event refers to, each once. */
export function relayHints({ tags }: EventDraft): readonly string[] {
  const hints = tags.filter(([name]) => name === 'e' || name === 'p' || name === 'a');
  return [...new Set(hints.map(([, , url]) => url).filter(isUsable))].slice(0, MAX_RELAYS);
}

const isUsable = (url: string | undefined): url is string =>
  url !== undefined && url.length <= MAX_URL_LENGTH && isRelayUrl(url);

export interface RelayListQuery {
  readonly run: string;
  readonly founders: readonly WorkerId[];
  readonly relays: {
    query(filters: readonly Filter[], options: QueryOptions): Promise<QueryResult>;
  };
  readonly known: readonly string[];
  readonly allowPrivate: boolean;
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

/** Maximum workers whose relay lists are queried, and maximum relays that one may name. */
const MOST_WORKERS = 64;
const MOST_OF_ONE = 2;
/** Maximum relays returned; each one means a connection. */
const MAX_DISCOVERED = 8;

/** Returns relays of founders first, then those that most workers name; at most MAX_DISCOVERED. */
export async function relaysOfWorkers(query: RelayListQuery): Promise<readonly string[]> {
  const { run, founders, relays, waitMs, signal } = query;
  const heard = await relays.query([presenceFilter(run)], { waitMs, signal, maxPerAuthor: 1 });
  const present = heard.events.map(({ pubkey }) => pubkey);
  const authors = [...new Set([...founders, ...present])].slice(0, MOST_WORKERS);
  const lists = await relays.query([{ kinds: [RELAY_LIST_KIND], authors }], { waitMs, signal });
  const named = [...heard.events, ...newestOfEach(lists.events)].flatMap((event) =>
    usable(relaysIn(event), query).map((url) => ({
      url,
      isOfFounder: founders.includes(event.pubkey),
    })),
  );
  const scores = new Map<string, number>();
  for (const { url, isOfFounder } of named) {
    scores.set(url, (scores.get(url) ?? 0) + (isOfFounder ? MOST_WORKERS : 1));
  }
  const ranked = [...scores].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return ranked.map(([url]) => url).slice(0, MAX_DISCOVERED);
}

const presenceFilter = (run: string): Filter => presence.filter({ scope: [run] });

/** Returns the newest event of each author and kind: an old list may come with the new one. */
function newestOfEach(events: readonly SignedEvent[]): readonly SignedEvent[] {
  const newest = new Map<WorkerId, SignedEvent>();
  for (const event of events) {
    const before = newest.get(event.pubkey);
    if (before === undefined || event.created_at > before.created_at)
      newest.set(event.pubkey, event);
  }
  return [...newest.values()];
}

function relaysIn(event: SignedEvent): readonly string[] {
  const list = parseRelayList(event);
  if (list) return [...list.write, ...list.read];
  const parsed = presence.parse(event);
  return parsed.ok ? (parsed.value.relays ?? []) : [];
}

const usable = (
  urls: readonly string[],
  { known, allowPrivate }: RelayListQuery,
): readonly string[] => {
  const ours = new Set(known.map(withoutSecrets));
  const good = urls.filter(
    (url) => !ours.has(url) && isRelayUrl(url) && (allowPrivate || hintProblem(url) === undefined),
  );
  return [...new Set(good)].slice(0, MOST_OF_ONE);
};
