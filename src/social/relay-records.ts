/** Records about relays (NIP-66): candidates from those of monitors, and our own measurements as such records. */
import type { EventDraft, SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';
import { hintProblem, isRelayUrl, withoutSecrets } from '../network/transport/relay-urls.ts';
import { parseRelayList } from '../network/wire/worker-relays.ts';
import type { CheckedRelay } from '../probe/index.ts';

const RECORD = 30_166;
const RELAY_LIST = 10_002;
/** Maximum records and lists requested. */
const MOST_EVENTS = 500;
/** Maximum keys whose relay lists are requested. */
const MOST_MEMBERS = 64;
/** Rank of a relay that a member of the run writes to, in monitors. */
const MEMBER_WORTH = 4;
/** Maximum records counted of one monitor, so that a single key cannot fill the list. */
const MOST_OF_MONITOR = 200;

/** A relay to test, and why. */
export interface Candidate {
  readonly url: string;
  /** Number of monitors that have a record of it. */
  readonly monitors: number;
  /** Number of members of the run that name it in their relay lists. */
  readonly members: number;
}

/** Returns filters for records of monitors, and for the relay lists of these keys. */
export const candidateFilters = (members: readonly string[]): readonly Filter[] => [
  { kinds: [RECORD], limit: MOST_EVENTS },
  ...(members.length === 0
    ? []
    : [{ kinds: [RELAY_LIST], authors: members.slice(0, MOST_MEMBERS) }]),
];

/**
 * Returns relays of verified events, those of members and of most monitors first. Relays that require payment or an
 * account are left out, and addresses in a private network unless allowed.
 */
export function rankCandidates(
  events: readonly SignedEvent[],
  members: readonly string[],
  allowPrivate = false,
): readonly Candidate[] {
  const ofRun = new Set(members);
  const candidates = new Map<string, { monitors: Set<string>; members: Set<string> }>();
  const add = (url: string, use: 'monitors' | 'members', key: string): void => {
    if (!isRelayUrl(url) || (!allowPrivate && hintProblem(url) !== undefined)) return;
    const name = new URL(withoutSecrets(url)).href;
    const entry = candidates.get(name) ?? { monitors: new Set(), members: new Set() };
    entry[use].add(key);
    candidates.set(name, entry);
  };
  const perMonitor = new Map<string, number>();
  for (const event of events) {
    const { kind, pubkey, tags } = event;
    if (ofRun.has(pubkey)) {
      for (const url of parseRelayList(event)?.write ?? []) add(url, 'members', pubkey);
    }
    const count = perMonitor.get(pubkey) ?? 0;
    const isOpen = !tags.some(([name, value]) => name === 'R' && CLOSED.includes(value ?? ''));
    if (kind !== RECORD || !isOpen || count >= MOST_OF_MONITOR) continue;
    perMonitor.set(pubkey, count + 1);
    add(tags.find(([name]) => name === 'd')?.[1] ?? '', 'monitors', pubkey);
  }
  const worth = ({ monitors, members }: Candidate) => monitors + MEMBER_WORTH * members;
  return [...candidates]
    .map(([url, by]) => ({ url, monitors: by.monitors.size, members: by.members.size }))
    .sort((a, b) => worth(b) - worth(a) || (a.url < b.url ? -1 : 1));
}

/** Requirements of relays that no worker can meet. */
const CLOSED = ['payment', 'writes'];

/** Most useful first: what a relay carries, how many events it takes at once, how fast it opens. */
const ORDER = ['chunks', 'manifests', 'heartbeats', 'nothing'];

/** Returns tested relays, the most useful first. */
export const rankChecked = (checked: readonly CheckedRelay[]): readonly CheckedRelay[] =>
  [...checked].sort(
    (a, b) =>
      ORDER.indexOf(a.verdict.carries) - ORDER.indexOf(b.verdict.carries) ||
      b.report.rate.accepted - a.report.rate.accepted ||
      (a.report.openedMs ?? 0) - (b.report.openedMs ?? 0),
  );

/**
 * Returns the record of a tested relay. `event-bytes`, `burst-events`, `pow-bits` and `kept-seconds` are ours: the
 * largest event that came back, how many it took at once, the work it asks for, and for how long it has kept a large
 * event at least.
 */
export function buildRelayRecord(
  { report }: CheckedRelay,
  createdAt: number,
  keptSeconds?: number,
): EventDraft {
  const { url, openedMs, stated, auth, work, size, rate, kinds } = report;
  const { host, href } = new URL(url);
  const network = /\.(onion|i2p|loki)$/.exec(host)?.[1] ?? 'clearnet';
  const required = (name: string, is: boolean) => ['R', is ? name : `!${name}`];
  const tags = [
    ['d', href],
    ['n', network === 'onion' ? 'tor' : network],
    ...(openedMs === undefined ? [] : [['rtt-open', openedMs.toFixed(0)]]),
    ...(stated?.supportedNips ?? []).map((nip) => ['N', String(nip)]),
    required('auth', auth.write),
    required('pow', work !== undefined),
    ...(stated === undefined
      ? []
      : [required('payment', stated.limitation.paymentRequired === true)]),
    ...Object.entries(kinds).flatMap(([kind, { verdict }]) =>
      verdict === 'yes' ? [['k', kind]] : verdict === 'refused' ? [['k', `!${kind}`]] : [],
    ),
    ['event-bytes', String(size.keptBytes)],
    ['burst-events', String(rate.accepted)],
    ...(work?.bits === undefined ? [] : [['pow-bits', String(work.bits)]]),
    ...(keptSeconds === undefined ? [] : [['kept-seconds', String(keptSeconds)]]),
  ];
  return { kind: RECORD, created_at: createdAt, tags, content: '' };
}

const APPLICATION_DATA = 30_078;
const RETENTION_ID = 'nostrain/retention';
/** Bytes of the event by which retention is measured: as large as a chunk of a run. */
const RETENTION_BYTES = 60_000;
/** Seconds after which the event expires. */
const RETENTION_SECONDS = 90 * 86_400;

/** Returns a filter for the event by which this key measures how long a relay keeps large events. */
export const retentionFilter = (author: string): Filter => ({
  kinds: [APPLICATION_DATA],
  authors: [author],
  '#d': [RETENTION_ID],
});

/** Returns that event; it is sent once, and its age at a later test is the measurement. */
export const buildRetention = (createdAt: number): EventDraft => ({
  kind: APPLICATION_DATA,
  created_at: createdAt,
  tags: [
    ['d', RETENTION_ID],
    ['expiration', String(createdAt + RETENTION_SECONDS)],
  ],
  content: 'A'.repeat(RETENTION_BYTES),
});
