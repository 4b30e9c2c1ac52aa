/** Builds what people post about a run: a note (kind 1) or a model card (NIP-23), with links that any client opens. */
import { npubEncode } from 'nostr-tools/nip19';
import { run as runKind } from '../../kinds/run.ts';
import { safeLine } from '../base/errors.ts';
import { formatLoss, plural } from '../base/numbers.ts';
import type { EventDraft } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { NAMED_SITE } from './sites.ts';
import {
  type Contributor,
  profilesFilter,
  type Share,
  type Split,
  splitZaps,
  zapShares,
  zapTags,
} from './zaps.ts';

const NOTE = 1;
const CARD = 30_023;
/** Maximum notes requested about a run. */
const MOST_NOTES = 50;

/** What a note says about a run; `RunPicture` is one. */
export interface Shown {
  readonly run: string;
  readonly name: string;
  readonly model: string;
  readonly planned: number;
  readonly lossUnit: string;
  readonly rounds: readonly {
    readonly sharedLoss?: number | undefined;
    readonly trainingLoss?: number | undefined;
  }[];
  readonly workers: readonly Contributor[];
}

export interface RunPost {
  readonly shown: Shown;
  readonly author: string;
  readonly naddr: string;
  readonly relay: string;
  /** Addresses of the run page and the tab, without a fragment. */
  readonly page?: string | undefined;
  readonly tab?: string | undefined;
  readonly picture?: PostedPicture | undefined;
  readonly split: Split;
}

/** Returns the loss after each round that reports one, oldest first. */
export const lossesIn = ({ rounds }: Pick<Shown, 'rounds'>): readonly number[] =>
  rounds.flatMap(({ sharedLoss, trainingLoss }) => sharedLoss ?? trainingLoss ?? []);

/** Returns the shares of a run that is over; a split of an earlier round could not be recomputed. */
export const closingShares = ({ rounds, planned, workers }: Shown): readonly Share[] =>
  rounds.length < planned ? [] : zapShares(workers);

/** A picture on a Blossom server (NIP-92). */
export interface PostedPicture {
  readonly url: string;
  readonly sha256: string;
  readonly type: string;
  /** `640x320`. */
  readonly size: string;
}

/** Returns the address of a run, as `a` tags write it. */
export const addressOfRun = (author: string, run: string): string =>
  `${runKind.kind}:${author}:${run}`;

/** Returns the draft of a note, or of a model card, which a later one replaces. */
export function buildAnnouncement(about: RunPost, createdAt: number, isCard = false): EventDraft {
  const { author, relay, split, picture } = about;
  const { run, name } = about.shown;
  const tags = [
    ['a', addressOfRun(author, run), relay],
    ['t', 'nostrain'],
    ...(picture === undefined ? [] : [imeta(picture, lossLine(about.shown))]),
    ...zapTags(split.shares, relay),
  ];
  const title = safeLine(name);
  const cardTags = [
    ['d', `nostrain/${run}`],
    ['title', title],
    ['summary', factsOf(about.shown)],
    ...(picture === undefined ? [] : [['image', picture.url]]),
  ];
  return isCard
    ? { kind: CARD, created_at: createdAt, tags: [...cardTags, ...tags], content: cardOf(about) }
    : { kind: NOTE, created_at: createdAt, tags, content: noteOf(about) };
}

const imeta = ({ url, sha256, type, size }: PostedPicture, alt: string) => [
  'imeta',
  `url ${url}`,
  `m ${type}`,
  `x ${sha256}`,
  `dim ${size}`,
  `alt ${alt}`,
];

function factsOf({ model, rounds, planned, workers }: Shown): string {
  const people = new Set(
    workers.flatMap(({ worker, principal = worker, counted }) => (counted > 0 ? principal : [])),
  ).size;
  return `${model}, ${rounds.length} of ${planned} rounds, ${plural(people, 'contributor')}`;
}

function lossLine(shown: Shown): string {
  const losses = lossesIn(shown);
  const [first, last] = [losses[0], losses.at(-1)];
  if (first === undefined || last === undefined) return 'no losses are reported';
  return `loss ${formatLoss(first)} → ${formatLoss(last)} ${shown.lossUnit}`.trim();
}

const linksOf = ({ naddr, page, tab }: RunPost): readonly string[] => [
  `nostr:${naddr}`,
  ...(tab === undefined ? [] : [`train in a tab: ${tab}#${naddr}`]),
  ...(page === undefined ? [] : [`see and verify it: ${page}#${naddr}`]),
];

function leftOutOf({ split: { leftOut } }: RunPost): readonly string[] {
  const names = leftOut.map((key) => `nostr:${npubEncode(key)}`).join(' ');
  return names === '' ? [] : [`zaps leave out, without a Lightning address: ${names}`];
}

function noteOf(about: RunPost): string {
  const { shown, picture } = about;
  const { name, rounds, planned } = shown;
  const state = rounds.length >= planned ? 'is trained' : 'is training';
  const lines = [
    `${safeLine(name)} ${state}: ${factsOf(about.shown)}`,
    `${drawLosses(lossesIn(about.shown))} ${lossLine(about.shown)}`.trim(),
    ...(picture === undefined ? [] : [picture.url]),
    ...linksOf(about),
    ...leftOutOf(about),
  ];
  return lines.join('\n');
}

function cardOf(about: RunPost): string {
  const { picture } = about;
  return [
    factsOf(about.shown),
    ...(picture === undefined ? [] : [`![${lossLine(about.shown)}](${picture.url})`]),
    `${drawLosses(lossesIn(about.shown))} ${lossLine(about.shown)}`.trim(),
    ...linksOf(about).map((link) => `- ${link}`),
    ...leftOutOf(about),
  ].join('\n\n');
}

const BARS = [...'▁▂▃▄▅▆▇█'];
/** Maximum bars of the loss picture in a text. */
const MOST_BARS = 32;

/** Returns the losses as a line of bars, thinned to a maximum; empty for fewer than two. */
export function drawLosses(losses: readonly number[]): string {
  if (losses.length < 2) return '';
  const count = Math.min(MOST_BARS, losses.length);
  const step = (losses.length - 1) / (count - 1);
  const thinned = Array.from({ length: count }, (_, i) => losses[Math.round(i * step)]!);
  const least = Math.min(...thinned);
  const range = Math.max(...thinned) - least || 1;
  return thinned
    .map((loss) => BARS[Math.round(((loss - least) / range) * (BARS.length - 1))])
    .join('');
}

/** Returns a filter for notes, model cards and sites about a run. */
export const notesFilter = (address: string): Filter => ({
  kinds: [NOTE, CARD, NAMED_SITE],
  '#a': [address],
  limit: MOST_NOTES,
});

/** Milliseconds to wait for profiles. */
const WAIT_MS = 8000;

/** Returns who shares a zap, and who has no Lightning address; both are empty before the run is over. */
export async function splitOf(shown: Shown, relays: RelaySet, signal: AbortSignal): Promise<Split> {
  const shares = closingShares(shown);
  if (shares.length === 0) return { shares, leftOut: [] };
  const { events } = await relays.query([profilesFilter(shares)], { waitMs: WAIT_MS, signal });
  return splitZaps(shares, events);
}
