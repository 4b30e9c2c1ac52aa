/** Everything in which relays were found to differ, observed over a bare WebSocket: facts, not verdicts. */
import type { EventDraft, SignedEvent } from 'nostrain/network';
import { openReader, type RawReader } from '../support/raw-reader.ts';
import { forgedTwin, signerOf } from '../support/signers.ts';

/** How a relay says no to one frame. */
export type Answer =
  | 'OK true'
  | 'OK false'
  /** An OK that names no event or another one. */
  | 'OK without the id'
  | 'NOTICE'
  | 'CLOSED'
  | 'EOSE'
  | 'hangs up'
  | 'silence';

export interface Behavior {
  /** Bytes of content in the largest event taken, of those tried; `MAX_CONTENT` when all were. */
  readonly contentBytes: number;
  /** The answer to the next larger one, and its words; undefined when none was refused. */
  readonly oversize: readonly [answer: Answer, words: string] | undefined;
  /** The answer to an event with a wrong signature, and to the genuine one after it. */
  readonly forged: readonly [answer: Answer, genuine: Answer];
  readonly unsigned: Answer;
  readonly badFilter: Answer;
  readonly notJson: Answer;
  /** The largest number of tag filters in one filter that still finds the event. */
  readonly tagFilters: number;
  /** The most values in one `#c` list that still finds the event. */
  readonly tagValues: number;
  /** Of 64 subscriptions on one connection, how many are answered with EOSE, and how many hear what comes then. */
  readonly subscriptions: readonly [answered: number, live: number];
  /** Stored events sent for a filter without a limit, and with a limit of 5000. */
  readonly results: readonly [unlimited: number, limited: number];
  /** Whether a REQ asked a moment before, by anyone, hides what was taken since. */
  readonly answersFromMemory: boolean;
  readonly expired: 'refused' | 'taken, not served' | 'served';
  /** The furthest date ahead that is taken, of those tried. */
  readonly secondsAhead: number;
  /** Which of two versions of one address with the same date is served; NIP-01 says the lowest id. */
  readonly sameSecond: 'lowest id' | 'first' | 'last' | 'both';
  /** The answer to an older version of an address that comes after the newer one, and whether it is served too. */
  readonly lateVersion: readonly [answer: Answer, 'not served' | 'served too'];
  /** The answer to an ephemeral event, and whether it is served later. */
  readonly ephemeral: readonly [answer: Answer, 'not kept' | 'kept'];
  /** What a deletion by the author (kind 5, by id) does to an event, and to the same event sent again. */
  readonly deletion: 'ignored' | 'deletes, may come back' | 'deletes for good';
  /** An event with a `-` tag, from somebody not authenticated (NIP-70). */
  readonly protectedEvent: 'refused' | 'taken';
  /** Whether it challenges (NIP-42) when somebody connects. */
  readonly challenges: boolean;
  readonly counts: boolean;
  readonly syncs: boolean;
  /** Whether it describes itself (NIP-11), and whether it states limits there. */
  readonly information: 'none' | 'without limits' | 'with limits';
}

const CONTENT_SIZES = [4_000, 60_000, 65_000, 102_000, 131_000, 262_000, 524_000, 1_048_000];
/** The largest content tried. */
export const MAX_CONTENT = 2_097_000;
const STORED = 520;
const SILENCE_MS = 3000;
const HOUR = 3600;

let counted = 0;
const now = () => Math.floor(Date.now() / 1000);
const author = signerOf(7);
const draft = (more: Partial<EventDraft> = {}): EventDraft => ({
  kind: 7811,
  created_at: now(),
  tags: [],
  content: `event ${++counted}`,
  ...more,
});
const signed = (more: Partial<EventDraft> = {}): SignedEvent => author.sign(draft(more));

/** Observes a relay that nobody else uses; takes some seconds, most of them waiting for silence. */
export async function observe(url: string): Promise<Behavior> {
  const size = await observeSize(url);
  const of = <T>(use: (relay: RawReader) => Promise<T>): Promise<T> => withReader(url, use);
  return {
    ...size,
    forged: await of(observeForged),
    unsigned: await of((relay) => {
      const { sig: _sig, ...unsigned } = signed();
      return answerTo(relay, unsigned);
    }),
    badFilter: await of((relay) => said(relay, () => relay.say('REQ', 'bad', { ids: [17] }))),
    notJson: await of((relay) => said(relay, () => relay.sendRaw('not JSON'))),
    tagFilters: await of(observeTagFilters),
    tagValues: await of(observeTagValues),
    subscriptions: await of(observeSubscriptions),
    results: await of(observeResults),
    answersFromMemory: await of(observeMemory),
    expired: await of(observeExpired),
    secondsAhead: await of(observeFuture),
    sameSecond: await of(observeSameSecond),
    lateVersion: await of(observeLateVersion),
    ephemeral: await of(observeEphemeral),
    deletion: await of(observeDeletion),
    protectedEvent: await of((relay) => isTaken(relay, { tags: [['-']] })),
    challenges: await of(observeChallenge),
    counts: await of((relay) => answers(relay, 'COUNT', 'c', { kinds: [7811] })),
    syncs: await of((relay) => answers(relay, 'NEG-OPEN', 'n', { kinds: [7811] }, '6100000200')),
    information: await readInformation(url),
  };
}

async function withReader<T>(url: string, use: (relay: RawReader) => Promise<T>): Promise<T> {
  const relay = await openReader(url);
  try {
    return await use(relay);
  } finally {
    await relay.close();
  }
}

const pause = (ms: number) => new Promise<undefined>((resolve) => setTimeout(resolve, ms));

/** The first frame that fits, or undefined after a while of silence. */
const within = (relay: RawReader, fits: (frame: readonly unknown[]) => boolean) =>
  Promise.race([relay.until(fits), pause(SILENCE_MS)]);

const verbs: Readonly<Record<string, Answer>> = {
  NOTICE: 'NOTICE',
  CLOSED: 'CLOSED',
  EOSE: 'EOSE',
};

function okIn([, named, taken]: readonly unknown[], id: string): Answer {
  if (named !== id) return 'OK without the id';
  return taken === true ? 'OK true' : 'OK false';
}

/** What the relay says to a message, in one word and in its own; `id` is what an OK should name. */
async function heard(
  relay: RawReader,
  speak: () => void,
  id = '',
): Promise<readonly [Answer, string]> {
  const from = relay.frames.length;
  speak();
  const frame = await Promise.race([
    relay.until((f) => f[0] !== 'AUTH' && f[0] !== 'EVENT' && relay.frames.indexOf(f) >= from),
    relay.closed,
    pause(SILENCE_MS),
  ]);
  if (frame === undefined) return ['silence', ''];
  // its code is lost (1006) where the hang-up overtakes what was still being sent, so it is no words
  if (typeof frame === 'number') return ['hangs up', ''];
  if (frame[0] === 'OK') return [okIn(frame, id), String(frame[3])];
  return [verbs[String(frame[0])] ?? 'silence', String(frame.at(-1))];
}

const said = async (relay: RawReader, speak: () => void): Promise<Answer> =>
  (await heard(relay, speak))[0];

const answerTo = async (relay: RawReader, event: { readonly id: string }): Promise<Answer> =>
  (await heard(relay, () => relay.say('EVENT', event), event.id))[0];

async function isTaken(relay: RawReader, more: Partial<EventDraft>): Promise<'refused' | 'taken'> {
  return (await answerTo(relay, signed(more))) === 'OK true' ? 'taken' : 'refused';
}

/** The stored events a filter brings. */
async function stored(relay: RawReader, filter: object): Promise<readonly SignedEvent[]> {
  const name = `s${++counted}`;
  const from = relay.frames.length;
  relay.say('REQ', name, filter);
  await within(relay, (frame) => frame[0] === 'EOSE' && frame[1] === name);
  relay.say('CLOSE', name);
  const events = relay.frames
    .slice(from)
    .filter((frame) => frame[0] === 'EVENT' && frame[1] === name)
    .map((frame) => frame[2] as SignedEvent);
  return [...new Map(events.map((event) => [event.id, event])).values()];
}

async function observeSize(url: string): Promise<Pick<Behavior, 'contentBytes' | 'oversize'>> {
  let contentBytes = 0;
  for (const size of [...CONTENT_SIZES, MAX_CONTENT]) {
    const event = signed({ content: 'a'.repeat(size) });
    const answer = await withReader(url, (relay) =>
      heard(relay, () => relay.say('EVENT', event), event.id),
    );
    if (answer[0] !== 'OK true') return { contentBytes, oversize: answer };
    contentBytes = size;
  }
  return { contentBytes, oversize: undefined };
}

async function observeForged(relay: RawReader): Promise<Behavior['forged']> {
  const genuine = signed();
  return [await answerTo(relay, forgedTwin(genuine)), await answerTo(relay, genuine)];
}

async function observeTagFilters(relay: RawReader): Promise<number> {
  const names = ['s', 'c', 'x', 't', 'y'];
  const event = signed({ tags: names.map((name) => [name, 'tagged']) });
  await answerTo(relay, event);
  let found = 0;
  for (let n = 1; n <= names.length; n++) {
    const tags = names.slice(0, n).map((name) => [`#${name}`, ['tagged']]);
    const events = await stored(relay, { kinds: [event.kind], ...Object.fromEntries(tags) });
    if (!events.some(({ id }) => id === event.id)) break;
    found = n;
  }
  return found;
}

async function observeTagValues(relay: RawReader): Promise<number> {
  const event = signed({ tags: [['c', 'needle']] });
  await answerTo(relay, event);
  let found = 0;
  for (const n of [1, 20, 64, 256, 1024]) {
    const straw = Array.from({ length: n - 1 }, (_, i) => `straw ${i}`);
    const events = await stored(relay, { kinds: [event.kind], '#c': [...straw, 'needle'] });
    if (!events.some(({ id }) => id === event.id)) break;
    found = n;
  }
  return found;
}

async function observeSubscriptions(relay: RawReader): Promise<readonly [number, number]> {
  const names = Array.from({ length: 64 }, (_, i) => `sub${i}`);
  const named = (verb: string) =>
    new Set(relay.frames.filter((frame) => frame[0] === verb).map((frame) => frame[1])).size;
  // in any order: relays serve subscriptions side by side
  const all = (verb: string) => within(relay, () => named(verb) === names.length);
  for (const name of names) relay.say('REQ', name, { kinds: [7819] });
  await all('EOSE');
  await answerTo(relay, signed({ kind: 7819 }));
  await all('EVENT');
  return [named('EOSE'), named('EVENT')];
}

async function observeResults(relay: RawReader): Promise<readonly [number, number]> {
  for (let i = 0; i < STORED; i++) {
    await relay.publish(signed({ kind: 7815, content: `${i}`, created_at: now() - i }));
  }
  const all = { kinds: [7815] };
  return [(await stored(relay, all)).length, (await stored(relay, { ...all, limit: 5000 })).length];
}

async function observeMemory(relay: RawReader): Promise<boolean> {
  const filter = { kinds: [7816] };
  await stored(relay, filter);
  await answerTo(relay, signed({ kind: 7816 }));
  return (await stored(relay, filter)).length === 0;
}

async function observeExpired(relay: RawReader): Promise<Behavior['expired']> {
  const event = signed({ tags: [['expiration', `${now() - HOUR}`]] });
  if ((await answerTo(relay, event)) !== 'OK true') return 'refused';
  const found = await stored(relay, { ids: [event.id] });
  return found.length > 0 ? 'served' : 'taken, not served';
}

async function observeFuture(relay: RawReader): Promise<number> {
  let taken = 0;
  for (const ahead of [60, 600, 1500, 3000, 365 * 24 * HOUR]) {
    if ((await isTaken(relay, { created_at: now() + ahead })) === 'refused') break;
    taken = ahead;
  }
  return taken;
}

/** Two versions of one address, published in this order. */
const versions = (tag: string, older: number, newer: number) =>
  [older, newer].map((at, i) =>
    signed({ kind: 33333, created_at: at, tags: [['d', tag]], content: `version ${i}` }),
  );

async function observeSameSecond(relay: RawReader): Promise<Behavior['sameSecond']> {
  const served: string[] = [];
  // both orders of arrival, or the lowest id could be the first or the last by chance
  for (const [tag, isReversed] of [
    ['a', false],
    ['b', true],
  ] as const) {
    // biome-ignore format: two orders
    const at = now();
    const pair = versions(tag, at, at).toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const order = isReversed ? pair.toReversed() : pair;
    for (const event of order) await answerTo(relay, event);
    const found = await stored(relay, { kinds: [33_333], '#d': [tag] });
    if (found.length > 1) return 'both';
    if (found[0]?.id === pair[0]!.id) served.push('lowest');
    else served.push('highest');
  }
  if (served.every((which) => which === 'lowest')) return 'lowest id';
  return served[0] === 'lowest' ? 'first' : 'last';
}

async function observeLateVersion(relay: RawReader): Promise<Behavior['lateVersion']> {
  const [older, newer] = versions('late', now() - 60, now());
  await answerTo(relay, newer!);
  const answer = await answerTo(relay, older!);
  const found = await stored(relay, { kinds: [33333], '#d': ['late'] });
  return [answer, found.length > 1 ? 'served too' : 'not served'];
}

async function observeEphemeral(relay: RawReader): Promise<Behavior['ephemeral']> {
  const event = signed({ kind: 27_810 });
  const answer = await answerTo(relay, event);
  const found = await stored(relay, { kinds: [event.kind] });
  return [answer, found.length > 0 ? 'kept' : 'not kept'];
}

async function observeDeletion(relay: RawReader): Promise<Behavior['deletion']> {
  const event = signed();
  await answerTo(relay, event);
  await answerTo(relay, signed({ kind: 5, tags: [['e', event.id], ['k', `${event.kind}`]] })); // biome-ignore format: one event
  await pause(200); // some answer before they have deleted
  const isThere = async () => (await stored(relay, { ids: [event.id] })).length > 0;
  if (await isThere()) return 'ignored';
  await answerTo(relay, event);
  return (await isThere()) ? 'deletes, may come back' : 'deletes for good';
}

async function observeChallenge(relay: RawReader): Promise<boolean> {
  return (await within(relay, (frame) => frame[0] === 'AUTH')) !== undefined;
}

/** Whether a message is answered in its own name. */
async function answers(relay: RawReader, ...message: readonly unknown[]): Promise<boolean> {
  relay.say(...message);
  const own = (frame: readonly unknown[]) =>
    frame[1] === message[1] && frame[0] !== 'CLOSED' && frame[0] !== 'NEG-ERR';
  return (await within(relay, own)) !== undefined;
}

async function readInformation(url: string): Promise<Behavior['information']> {
  const headers = { accept: 'application/nostr+json' };
  const response = await fetch(url.replace('ws', 'http'), { headers });
  const text = await response.text();
  if (!response.ok || !text.startsWith('{')) return 'none';
  return 'limitation' in JSON.parse(text) ? 'with limits' : 'without limits';
}
