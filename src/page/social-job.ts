/** What people say about a run, for the thread of the page: comments, notes with a zap split, and posting a note. */
import { decode } from 'nostr-tools/nip19';
import { certifiedCheckpoint } from '../../kinds/certified-checkpoint.ts';
import { systemClock } from '../base/async.ts';
import { ConfigError } from '../base/errors.ts';
import { encodeRunAddress } from '../certified/wire/runs.ts';
import type { OpenRun } from '../dashboard/follow-run.ts';
import { type EventDraft, parseEvent, type SignedEvent, verifyEvent } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import {
  addressOfRun,
  buildAnnouncement,
  closingShares,
  notesFilter,
  splitOf,
} from '../social/announce.ts';
import { commentsFilter, readComments } from '../social/comments.ts';
import { checkZaps } from '../social/zaps.ts';
import type { FromJob, SplitNote } from './messages.ts';

/** Maximum events kept about a run; a flood beyond it is ignored. */
const MOST_EVENTS = 400;
/** Maximum events kept of one key. */
const MOST_OF_KEY = 20;
/** Minimum milliseconds between two messages to the page. */
const PAUSE_MS = 500;

/**
 * Follows comments and notes until the signal aborts, and sends them to the page, at a limited rate. Returns a function
 * to call when the run has changed, because verdicts on zap splits depend on its rounds.
 */
export function followSocial(
  opened: OpenRun,
  relays: RelaySet,
  signal: AbortSignal,
  say: (message: FromJob) => void,
): () => void {
  const address = addressOfRun(opened.spec.author, opened.run);
  const events = new Map<string, SignedEvent>();
  const perKey = new Map<string, number>();
  let isWaiting = false;
  const tell = async () => {
    if (isWaiting) return;
    isWaiting = true;
    await systemClock.sleep(PAUSE_MS, signal);
    isWaiting = false;
    const all = [...events.values()];
    const notes = splitNotes(address, opened, all);
    say({ type: 'social', comments: readComments(address, all), notes });
  };
  const requestTell = () => void tell().catch(() => undefined);
  const subscription = relays.subscribe([commentsFilter(address), notesFilter(address)], {
    onEvent(event) {
      const count = perKey.get(event.pubkey) ?? 0;
      if (events.size >= MOST_EVENTS || count >= MOST_OF_KEY) return;
      perKey.set(event.pubkey, count + 1);
      events.set(event.id, event);
      requestTell();
    },
  });
  signal.addEventListener('abort', () => subscription.close(), { once: true });
  return requestTell;
}

/** Returns the notes that carry zap tags, with a verdict on each; none before the run is over. */
function splitNotes(
  address: string,
  { picture }: OpenRun,
  events: readonly SignedEvent[],
): readonly SplitNote[] {
  const shares = closingShares(picture);
  if (shares.length === 0) return [];
  return events.flatMap(({ id, pubkey: author, created_at: at, tags }) => {
    const isAbout = tags.some(([name, of]) => name === 'a' && of === address);
    const hasSplit = tags.some(([name]) => name === 'zap');
    return isAbout && hasSplit ? [{ id, author, at, verdict: checkZaps(tags, shares) }] : [];
  });
}

/** Returns the draft of a note about the run, with a link to the page if it has a public address. */
export async function draftNote(
  { run, spec, picture }: OpenRun,
  relays: RelaySet,
  page: string | undefined,
  signal: AbortSignal,
): Promise<EventDraft> {
  const hints = relays.relays;
  const about = {
    shown: picture,
    author: spec.author,
    naddr: encodeRunAddress({ run, author: spec.author, relays: hints }),
    relay: hints[0] ?? '',
    page,
    split: await splitOf(picture, relays, signal),
  };
  return buildAnnouncement(about, Math.floor(systemClock.now() / 1000));
}

/** Publishes a signed note and returns the relays that accepted it. Throws a ConfigError for anything else. */
export async function postNote(
  json: unknown,
  { run, spec }: OpenRun,
  relays: RelaySet,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const event = parseEvent(json);
  const address = addressOfRun(spec.author, run);
  const isNote =
    event.ok &&
    verifyEvent(event.value).ok &&
    event.value.kind === 1 &&
    event.value.tags.some(([name, of]) => name === 'a' && of === address);
  if (!isNote) {
    throw new ConfigError('page/signer', 'the signer returned another event than the note', {
      hint: 'use another signer',
    });
  }
  const outcomes = await relays.publish(event.value, { signal });
  return outcomes.filter(({ status }) => status === 'accepted').map(({ relay }) => relay);
}

export interface CheckpointPointer {
  readonly id: string;
  readonly relays: readonly string[];
}

/** Parses `nevent1…`; undefined for other text. */
export function checkpointPointer(text: string): CheckpointPointer | undefined {
  if (!text.startsWith('nevent1')) return undefined;
  try {
    const decoded = decode(text);
    if (decoded.type !== 'nevent') return undefined;
    return { id: decoded.data.id, relays: decoded.data.relays ?? [] };
  } catch {
    return undefined;
  }
}

/** Milliseconds to wait for the event that an address names. */
const WAIT_MS = 8000;

/** Returns the run of a checkpoint event (kind 7812). Throws a ConfigError if no relay has one with this id. */
export async function runOfCheckpoint(
  id: string,
  relays: RelaySet,
  signal: AbortSignal,
): Promise<string> {
  const filter = { kinds: [certifiedCheckpoint.kind], ids: [id] };
  const { events } = await relays.query([filter], { waitMs: WAIT_MS, signal });
  const parsed = events.map((event) => certifiedCheckpoint.parse(event)).find(({ ok }) => ok);
  if (parsed?.ok) return parsed.value.run;
  throw new ConfigError('run/address', 'no relay here has the checkpoint of this address', {
    hint: 'ask for the naddr1… of the run',
  });
}
