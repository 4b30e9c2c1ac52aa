/** A plan for people: what a round costs, how long it must last, which relays carry it, and what would help. */

import { safeLine } from '../../../base/errors.ts';
import { formatBytes, formatCount } from '../../../base/numbers.ts';
import {
  type CostInput,
  type Load,
  PUBLIC_BUDGET,
  paceSeconds,
  type RoundCost,
  wholeSeconds,
} from '../../../network/wire/cost.ts';
import type { ProfileName } from '../../../network/wire/wire.ts';
import type { Settings } from '../../../run/settings.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';
import { wrap } from '../../../terminal/render/text.ts';
import type { RelayFit } from './relay-fit.ts';

const WIDTH = 100;

/** The run whose cost was worked out. */
export interface PlanInput extends CostInput {
  readonly profile: ProfileName;
}

export type Sharing = Pick<
  Settings,
  'owners' | 'fragments' | 'packing' | 'outerLearningRate' | 'momentum'
>;

export interface Plan {
  readonly model: string | undefined;
  readonly parameters: number | undefined;
  /** What workers send of the model, and how it moves by that. */
  readonly sharing: Sharing | undefined;
  readonly rounds: number;
  readonly workersPerIp: number;
  readonly input: PlanInput;
  readonly cost: RoundCost;
  /** What all workers send to all relays in the whole run. */
  readonly total: Load;
  /** Shortest round on a public relay; Infinity where none is long enough. */
  readonly floorSeconds: number;
  readonly relays: readonly RelayFit[];
  readonly advice: readonly string[];
}

export function formatPlan(plan: Plan): string {
  const lines = (words: string) => wrap(words, WIDTH);
  const parts = [
    head(plan).flatMap(lines),
    costs(plan),
    lines(wordFloor(plan)),
    relayRows(plan),
    help(plan),
  ];
  return `${parts
    .filter((each) => each.length > 0)
    .map((each) => each.join('\n'))
    .join('\n\n')}\n`;
}

const many = (count: number, word: string): string => `${count} ${word}${count === 1 ? '' : 's'}`;

function head({ model, parameters, sharing, rounds, input, cost }: Plan): readonly string[] {
  const { payloadBytes, workers, roundSeconds, profile, stripe } = input;
  const size = parameters === undefined ? '' : `, ${formatCount(parameters)} parameters`;
  const what = model === undefined ? '' : `${model}${size}; `;
  const forms = {
    inside: 'inside one event',
    chunks: `in ${many(cost.chunks.events, 'chunk')} and a manifest`,
    shards: `in ${stripe.of} shards (any ${stripe.need} are enough), ${many(cost.chunks.events, 'chunk')} of one to each relay`,
  } as const;
  return [
    `${what}${many(workers, 'worker')}, ${many(rounds, 'round')} of ${roundSeconds} s, ${profile}`,
    `payload: ${formatBytes(payloadBytes)} per worker and round, ${forms[cost.form]}`,
    ...(sharing === undefined ? [] : [wordSharing(sharing)]),
  ];
}

function wordSharing(sharing: Sharing): string {
  const { owners, fragments, packing, outerLearningRate, momentum } = sharing;
  const what =
    fragments === 1 ? 'the whole model' : `one of ${fragments} parts of the model in turn`;
  const who = owners === 0 ? 'from everybody' : `each value from ${many(owners, 'worker')}`;
  const step =
    outerLearningRate === 1 && momentum === 0
      ? 'plain averaging'
      : `outer step ${outerLearningRate}, momentum ${momentum}`;
  return `a round: ${what}, ${who}, packing ${packing}; ${step}`;
}

function costs({ input, cost, total, rounds }: Plan): readonly string[] {
  const { workers, relays, roundSeconds, profile } = input;
  const row = (name: string, { events, bytes }: Load) => [
    name,
    formatEvents(events),
    formatBytes(Math.round(bytes)),
  ];
  const part = (name: string, load: Load) => (load.events === 0 ? [] : [row(`  ${name}`, load)]);
  const { toEachRelay, sent, received } = cost;
  const perMinute = formatEvents((toEachRelay.events * 60) / roundSeconds);
  return alignColumns(
    [
      ['per worker and round', 'events', 'bytes'],
      row('sent to each relay', toEachRelay),
      ...part(profile === 'nostrain/0' ? 'gradient' : 'manifest', cost.commit),
      ...part('chunks', cost.chunks),
      ...part('heartbeats', cost.heartbeats),
      ...part('checkpoint', cost.checkpoint),
      ...(relays.length > 1 ? [row(`sent to all ${relays.length} relays`, sent)] : []),
      row(`received from ${many(workers - 1, 'other')}`, received),
      ['events a minute to each relay', perMinute, ''],
      row(`whole run: ${many(workers, 'worker')}, ${many(rounds, 'round')}`, total),
    ],
    WIDTH,
  );
}

const formatEvents = (events: number): string =>
  events < 1000 ? events.toFixed(1).replace(/\.0$/, '') : formatCount(events);

function wordFloor({ floorSeconds, workersPerIp, input }: Plan): string {
  const { atOnce, perMinute } = PUBLIC_BUDGET;
  const share = `, which ${workersPerIp} workers share: each with --set relayRate=${Number((perMinute / workersPerIp).toFixed(2))}`;
  const shared = workersPerIp === 1 ? '' : share;
  const budget = `a public relay (${atOnce} events at once, then ${perMinute} a minute from one IP${shared})`;
  if (!Number.isFinite(floorSeconds)) {
    return `floor: none on ${budget}: heartbeats every ${input.heartbeatSeconds} s are all it takes`;
  }
  const wait = wholeSeconds(paceSeconds({ perMinute, workersPerIp }));
  return `floor: rounds of ${wholeSeconds(floorSeconds)} s on ${budget}; up to ${wait} s of them an event waits for its turn`;
}

function relayRows({ relays }: Plan): readonly string[] {
  if (relays.length === 0) return [];
  const yes = (value: boolean | undefined) =>
    value === undefined ? 'not needed' : value ? 'yes' : 'NO';
  const floor = (seconds: number) =>
    Number.isFinite(seconds) ? `${wholeSeconds(seconds)} s` : 'none';
  const rows = relays.map((fit) => [
    safeLine(fit.url),
    yes(fit.manifests),
    yes(fit.chunks),
    fit.manifests ? `${floor(fit.floorSeconds)} (${fit.rateBasis})` : '-',
    yes(fit.carries),
  ]);
  const reasons = relays.flatMap(({ url, why }) => why.map((each) => `${url}: ${each}`));
  return [
    ...alignColumns([['relay', 'manifests', 'chunks', 'floor', 'carries the run'], ...rows], WIDTH),
    ...bullets(reasons),
  ];
}

const help = ({ advice }: Plan): readonly string[] =>
  advice.length === 0 ? [] : ['what would help, one of these or several:', ...bullets(advice)];

const bullets = (notes: readonly string[]): readonly string[] =>
  notes.flatMap((note) =>
    wrap(safeLine(note), WIDTH - 4).map((line, i) => `${i === 0 ? '  - ' : '    '}${line}`),
  );
