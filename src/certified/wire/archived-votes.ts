/**
 * Archives the events that decided a round under another key (kind 7815), in case their authors delete them or they
 * expire. The archiver is not trusted: every event inside is verified. Publishes, finds and reads such archives.
 */

import { archivedVotes, MAX_ARCHIVED_VOTES_BYTES } from '../../../kinds/copies.ts';
import { fromBase64, utf8 } from '../../base/bytes.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Attachments } from '../../network/attachments/attachments.ts';
import type { PublishOptions } from '../../network/attachments/publish.ts';
import { expirationOf, type Lifetime, type PayloadRoot } from '../../network/chunks/payload.ts';
import { inOrder, parseEvent, type SignedEvent, verifyEvent } from '../../network/event.ts';
import { type EventCrypto, pureCrypto, type Sha256 } from '../../network/event-crypto.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { type Built, carrying } from '../../network/wire/addressed.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { byAuthors, DECIDING } from './certified-events.ts';

export interface ArchivedVotesClaim extends PayloadRoot {
  readonly worker: WorkerId;
}

/** Builds unsigned archive events for these events: several if one would be too large. */
export function buildArchivedVotes(
  { run, round }: { readonly run: Digest; readonly round: number },
  events: readonly SignedEvent[],
  lifetime: Lifetime,
  hash: Sha256,
): readonly Built[] {
  const fields = { scope: [run, `${run}/${round}`], expiration: expirationOf(lifetime) };
  return inBundles(events).map((bytes) =>
    carrying(bytes, hash, (carried) =>
      archivedVotes.build({ ...fields, ...carried }, lifetime.createdAt),
    ),
  );
}

function inBundles(events: readonly SignedEvent[]): readonly Uint8Array[] {
  const texts = [...events]
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .map((event) => JSON.stringify(inOrder(event)));
  const bundles: { texts: string[]; size: number }[] = [];
  for (const text of texts) {
    const size = utf8(text).length + 1;
    const last = bundles.at(-1);
    if (last && last.size + size < MAX_ARCHIVED_VOTES_BYTES) {
      last.texts.push(text);
      last.size += size;
    } else bundles.push({ texts: [text], size: size + 1 });
  }
  return bundles.map((bundle) => utf8(`[${bundle.texts.join(',')}]`));
}

/**
 * Returns filters for archives by these keys, of one round or of the whole run. Strangers are not queried, so none can
 * flood a reader.
 */
export function archivedVotesFilters(
  run: Digest,
  keys: readonly WorkerId[],
  round?: number,
): readonly Filter[] {
  return byAuthors(round === undefined ? run : `${run}/${round}`, [archivedVotes.kind], keys);
}

/** Returns the verified events in an archive event, or the root of their chunks; refuses any other event. */
export function readArchivedVotes(
  event: SignedEvent,
  run: Digest,
  crypto: EventCrypto = pureCrypto,
): Result<readonly SignedEvent[] | ArchivedVotesClaim> {
  const parsed = archivedVotes.parse(event);
  if (!parsed.ok) return parsed;
  const { scope, data, root, bytes } = parsed.value;
  if (scope[0] !== run) return refuse('other-run', 's', 'archived votes of another run');
  if (data === undefined) return ok({ root: root!, bytes: bytes!, worker: event.pubkey });
  const decoded = fromBase64(data);
  if (decoded === undefined) return refuse('bad-content', 'content', 'not canonical base64');
  return ok(openArchivedVotes(decoded, run, crypto));
}

/** Returns the verified events of this run in untrusted bytes; skips everything else. */
export function openArchivedVotes(
  bytes: Uint8Array,
  run: Digest,
  crypto: EventCrypto = pureCrypto,
): readonly SignedEvent[] {
  const json = jsonIn(new TextDecoder().decode(bytes));
  if (!Array.isArray(json)) return [];
  return json.flatMap((each: unknown) => {
    const parsed = parseEvent(each);
    // manifests are not archived: their payloads are too large
    if (!parsed.ok || !DECIDING.includes(parsed.value.kind)) return [];
    const isOfRun = parsed.value.tags.some(([name, value]) => name === 's' && value === run);
    return isOfRun && verifyEvent(parsed.value, crypto).ok ? [parsed.value] : [];
  });
}

/** Events, and the bodies that are sent as chunks. */
export interface Bundle {
  readonly events: readonly SignedEvent[];
  readonly bodies: readonly Uint8Array[];
}

export interface RoundOfRun {
  readonly run: Digest;
  readonly round: number;
}

export interface ArchivedVotesSearch {
  readonly relays: RelaySet;
  readonly attachments: Attachments;
  readonly signal: AbortSignal;
  readonly crypto?: EventCrypto | undefined;
}

/** Time for relays to answer a query. */
const FIND_MS = 10_000;

/** Publishes archives of these events after their chunks and bodies; resolves when relays have answered. */
export async function publishArchivedVotes(
  where: RoundOfRun,
  { events, bodies }: Bundle,
  client: Attachments,
  options: PublishOptions,
): Promise<void> {
  const built = buildArchivedVotes(where, events, options.lifetime, client.access.sha256);
  await Promise.all(
    built.map(({ draft, payload }) => {
      const attached = [...(payload ? [payload] : []), ...bodies];
      const attachments = attached.map((bytes) => ({ payload: bytes }));
      return client.publish(options.sign(draft), attachments, options).settled;
    }),
  );
}

/** A round, and the members whose archives of it are queried. */
export interface ArchivedRound {
  readonly round: number;
  readonly by: readonly WorkerId[];
}

/**
 * Passes the events of archived rounds to `take`; resolves when relays have answered. Never rejects.
 */
export async function findArchivedVotes(
  run: Digest,
  rounds: readonly ArchivedRound[],
  { relays, attachments, signal, crypto }: ArchivedVotesSearch,
  take: (event: SignedEvent) => void,
): Promise<void> {
  const pulls: Promise<void>[] = [];
  const pull = async (claim: ArchivedVotesClaim) => {
    const pulled = await attachments.pull(claim).done;
    if (pulled) openArchivedVotes(pulled.payload, run, crypto).forEach(take);
  };
  const onEvent = (event: SignedEvent) => {
    const read = readArchivedVotes(event, run, crypto);
    if (!read.ok) return;
    if ('root' in read.value) pulls.push(pull(read.value));
    else read.value.forEach(take);
  };
  const filters = rounds.flatMap(({ round, by }) => archivedVotesFilters(run, by, round));
  // rejects when the search is aborted
  await relays.query(filters, { waitMs: FIND_MS, signal, onEvent }).catch(() => undefined);
  await Promise.all(pulls);
}

/**
 * Returns which of these members have an archive of the round on a relay; undefined if no relay answered. Never
 * rejects.
 */
export async function findArchivers(
  { run, round }: RoundOfRun,
  members: readonly WorkerId[],
  { relays, signal }: Pick<ArchivedVotesSearch, 'relays' | 'signal'>,
): Promise<ReadonlySet<WorkerId> | undefined> {
  const authors = new Set<WorkerId>();
  const onEvent = (event: SignedEvent) => {
    const parsed = archivedVotes.parse(event);
    if (parsed.ok && parsed.value.scope.includes(`${run}/${round}`)) authors.add(event.pubkey);
  };
  const queryOptions = { waitMs: FIND_MS, signal, onEvent };
  const answer = await relays
    .query(archivedVotesFilters(run, members, round), queryOptions)
    .catch(() => undefined);
  return answer === undefined || answer.answered.length === 0 ? undefined : authors;
}
