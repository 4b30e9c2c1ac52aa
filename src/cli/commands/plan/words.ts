/** Formats a plan: what a round costs, its minimum length, which relays carry it, and advice. */

import { INSIDE_BYTES } from '../../../../kinds/manifest.ts';
import { safeLine } from '../../../base/errors.ts';
import { formatBytes, formatCount, plural } from '../../../base/numbers.ts';
import {
  type CostInput,
  floorSeconds,
  type Load,
  PUBLIC_BUDGET,
  type RoundCost,
  roundCost,
  secondsBetweenEvents,
  wholeSeconds,
} from '../../../network/wire/cost.ts';
import type { ProfileName } from '../../../network/wire/wire.ts';
import type { Settings } from '../../../run/settings.ts';
import { type Adaptation, describeAdaptation } from '../../../run/spec/adaptation.ts';
import { alignColumns, bullets, wrap } from '../../../terminal/render/text.ts';
import type { RelayFit } from './relay-fit.ts';

const WIDTH = 100;

/** The run whose cost was estimated. */
export interface PlanInput extends CostInput {
  readonly profile: ProfileName;
}

export type Sharing = Pick<
  Settings,
  'owners' | 'fragments' | 'packing' | 'outerLearningRate' | 'momentum'
>;

export interface PlanReport {
  readonly model: string | undefined;
  readonly parameters: number | undefined;
  /** Which part of the model a round sends, and how the outer step applies it. */
  readonly sharing: Sharing | undefined;
  /** Settings that differ from the preset because of other ones. */
  readonly adaptations: readonly Adaptation[];
  readonly rounds: number;
  readonly workersPerIp: number;
  readonly input: PlanInput;
  readonly cost: RoundCost;
  /** Everything that all workers send to all relays in the whole run. */
  readonly total: Load;
  /** Shortest round on a public relay, in seconds; Infinity if none is long enough. */
  readonly floorSeconds: number;
  readonly relays: readonly RelayFit[];
  readonly advice: readonly string[];
}

export function formatPlan(plan: PlanReport): string {
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

function head(plan: PlanReport): readonly string[] {
  const { model, parameters, sharing, adaptations, rounds, input, cost } = plan;
  const { payloadBytes, workers, roundSeconds, profile, stripe } = input;
  const size = parameters === undefined ? '' : `, ${formatCount(parameters)} parameters`;
  const what = model === undefined ? '' : `${model}${size}; `;
  const forms = {
    inside: 'inside one event',
    chunks: `in ${plural(cost.chunks.events, 'chunk')} and a manifest`,
    shards:
      `in ${stripe.of} shards (any ${stripe.need} are enough), ` +
      `${plural(cost.chunks.events, 'chunk')} of one to each relay`,
  } as const;
  return [
    `${what}${plural(workers, 'worker')}, ${plural(rounds, 'round')} of ${roundSeconds} s, ` +
      profile,
    `payload: ${formatBytes(payloadBytes)} per worker and round, ${forms[cost.form]}`,
    ...(sharing === undefined ? [] : [wordSharing(sharing)]),
    ...adaptations.map(describeAdaptation),
  ];
}

function wordSharing(sharing: Sharing): string {
  const { owners, fragments, packing, outerLearningRate, momentum } = sharing;
  const what =
    fragments === 1 ? 'the full model' : `one of ${fragments} parts of the model in turn`;
  const who = owners === 0 ? 'from every worker' : `each value from ${plural(owners, 'worker')}`;
  const step =
    outerLearningRate === 1 && momentum === 0
      ? 'plain averaging'
      : `outer step ${outerLearningRate}, momentum ${momentum}`;
  return `a round: ${what}, ${who}, packing ${packing}; ${step}`;
}

function costs({ input, cost, total, rounds }: PlanReport): readonly string[] {
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
      row(`received from ${plural(workers - 1, 'other')}`, received),
      ['events per minute to each relay', perMinute, ''],
      row(`whole run: ${plural(workers, 'worker')}, ${plural(rounds, 'round')}`, total),
    ],
    WIDTH,
  );
}

const formatEvents = (events: number): string =>
  events < 1000 ? events.toFixed(1).replace(/\.0$/, '') : formatCount(events);

function wordFloor({ floorSeconds, workersPerIp, input }: PlanReport): string {
  const { atOnce, perMinute } = PUBLIC_BUDGET;
  const rate = Number((perMinute / workersPerIp).toFixed(2));
  const shared =
    workersPerIp === 1
      ? ''
      : `, which ${workersPerIp} workers share: each with --set relayRate=${rate}`;
  const budget =
    `a public relay (${atOnce} events at once, then ${perMinute} per minute from one ` +
    `IP${shared})`;
  if (!Number.isFinite(floorSeconds)) {
    const heartbeats = `heartbeats every ${input.heartbeatSeconds} s`;
    return `floor: none on ${budget}: ${heartbeats} use up the rate`;
  }
  const wait = wholeSeconds(secondsBetweenEvents({ perMinute, workersPerIp }));
  return (
    `floor: rounds of ${wholeSeconds(floorSeconds)} s on ${budget}; an event waits up to ` +
    `${wait} s of that in the queue`
  );
}

function relayRows({ relays }: PlanReport): readonly string[] {
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
    ...bullets(reasons, WIDTH),
  ];
}

const help = ({ advice }: PlanReport): readonly string[] =>
  advice.length === 0 ? [] : ['what would help, one or more of:', ...bullets(advice, WIDTH)];

/** With heartbeats this far apart, most of a public relay's budget is left for contributions. */
const CALM_SECONDS = 120;
const MOST_PARTS = 8;
/** Event size that most public relays accept. */
const USUAL_BYTES = 65_536;

type Floor = (change: Partial<CostInput>) => number;

/**
 * Returns advice, the easiest first; empty if the given relays, or public relays if none are given, carry the run as it
 * is.
 */
export function advise({
  input,
  workersPerIp,
  relays,
}: Pick<PlanReport, 'workersPerIp' | 'relays'> & { readonly input: CostInput }): readonly string[] {
  const floorOf: Floor = (change) => {
    const changed = { ...input, ...change };
    const { fixedEvents } = roundCost(changed);
    const { heartbeatSeconds } = changed;
    return floorSeconds({ ...PUBLIC_BUDGET, fixedEvents, heartbeatSeconds, workersPerIp });
  };
  const isCarried = relays.length > 0 && relays.every(({ carries }) => carries);
  const isSlow = floorOf({}) > input.roundSeconds;
  if (isCarried || (relays.length === 0 && !isSlow)) return [];
  const isRefused = relays.some(({ chunks }) => chunks === false);
  return [
    ...(isSlow ? adviseRoundLength(input, floorOf) : []),
    ...(isSlow || isRefused ? adviseSize(input, floorOf) : []),
    ...(isSlow ? adviseErasure(input, floorOf) : []),
    'run your own relay, which accepts any rate: nostrain relay --host 0.0.0.0',
  ];
}

const within = (seconds: number): string => `rounds of ${wholeSeconds(seconds)} s on public relays`;

function adviseRoundLength({ heartbeatSeconds }: CostInput, floorOf: Floor): readonly string[] {
  const now = floorOf({});
  const calm = floorOf({ heartbeatSeconds: CALM_SECONDS });
  const isCalm = heartbeatSeconds >= CALM_SECONDS || !Number.isFinite(calm);
  return [
    ...(Number.isFinite(now)
      ? [`longer rounds: at least ${wholeSeconds(now)} s, with more --inner-steps`]
      : []),
    ...(isCalm ? [] : [`--heartbeat-interval ${CALM_SECONDS}: ${within(calm)}`]),
  ];
}

function adviseSize({ whole, payloadBytes }: CostInput, floorOf: Floor): readonly string[] {
  if (whole) {
    return payloadBytes > USUAL_BYTES ? ['--set profile=nostrain/1: no event over 64 KiB'] : [];
  }
  if (payloadBytes <= INSIDE_BYTES) return [];
  const small = floorOf({ payloadBytes: INSIDE_BYTES });
  const duration = Number.isFinite(small) ? `: ${within(small)}` : '';
  return [
    `--set packing=trellis --set eventBudget=${USUAL_BYTES}: one event per worker and ` +
      `round${duration}`,
  ];
}

/** Returns the fewest parts with which rounds are short enough, or the number of parts with the shortest rounds. */
function adviseErasure(
  { roundSeconds, stripe, payloadBytes, whole }: CostInput,
  floorOf: Floor,
): readonly string[] {
  if (whole || payloadBytes <= INSIDE_BYTES) return [];
  let best = { floor: floorOf({}), need: 0 };
  for (let need = Math.max(2, stripe.need + 1); need <= MOST_PARTS; need++) {
    if (best.floor <= roundSeconds) break;
    const floor = floorOf({ stripe: { need, of: need + 1 } });
    if (floor < best.floor) best = { floor, need };
  }
  const { need, floor } = best;
  if (need === 0) return [];
  return [`--set stripe=${need}/${need + 1} over ${need + 1} relays: ${within(floor)}`];
}
