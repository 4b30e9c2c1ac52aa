/**
 * `nostrain plan`: estimates the events and bytes of a run, and which relays can carry it. Trains and publishes
 * nothing.
 */

import type { Command } from 'commander';
import { CHUNK_BYTES, MAX_CHUNKS } from '../../../../kinds/chunk.ts';
import { ConfigError } from '../../../base/errors.ts';
import { layoutOf } from '../../../model/from-settings.ts';
import { modelLayout } from '../../../model/parameters.ts';
import { parseRelayUrls, withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { floorSeconds, PUBLIC_BUDGET, roundCost } from '../../../network/wire/cost.ts';
import { expectedWorkers } from '../../../node/data/task.ts';
import { erasureOver } from '../../../node/net/relays.ts';
import { openBase } from '../../../node/pretrained/base-model.ts';
import { openImportedTask } from '../../../node/pretrained/imported-file.ts';
import { isImported } from '../../../run/data-forms.ts';
import type { PartialSettings, Settings } from '../../../run/settings.ts';
import {
  adaptedSettings,
  combineSettings,
  presets,
  requestedModel,
} from '../../../run/spec/presets.ts';
import { defineCommand } from '../../../terminal/command.ts';
import {
  type FlagValues,
  positive,
  settingFlags,
  text,
  toggle,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import {
  refuseUnused,
  settingRules,
  settingsFromFile,
  settingsFromFlags,
} from '../../../terminal/options.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../../terminal/output.ts';
import { type Estimate, estimatePayload } from '../../shared/estimate.ts';
import { protocolOf } from '../../shared/protocol.ts';
import { checkRelaysWithPorts } from '../relays.ts';
import { askRelay, factsOf, judgeFit, type RelayFacts } from './relay-fit.ts';
import { advise, formatPlan, type PlanReport } from './words.ts';

const CHECK_MS = 60_000;
/** Maximum payload of a round: as many chunks as a manifest can list. */
const MOST_PAYLOAD_BYTES = CHUNK_BYTES * MAX_CHUNKS;

const planFlags = {
  settings: text('<file>', 'JSON file with settings; flags override it'),
  workers: whole(
    '<n>',
    'workers of the run (default: N of --sync strict:N, or of --shard K/N)',
    1,
    100_000,
  ),
  workersPerIp: withDefault(whole('<n>', 'workers behind one IP address', 1, 100_000), 1),
  roundSeconds: withDefault(positive('<s>', 'length of a round in seconds, training included'), 60),
  payloadBytes: whole(
    '<n>',
    'payload bytes of a round, instead of measuring them',
    1,
    MOST_PAYLOAD_BYTES,
  ),
  check: toggle('test the relays as `nostrain relays check` does'),
  json: toggle('print JSON'),
  ...settingFlags(),
};

type PlanFlags = FlagValues<typeof planFlags>;

export const plan = defineCommand({
  name: 'plan',
  help: 'estimate what a run sends in events and bytes, and which relays can carry it',
  flags: planFlags,
  async run(flags, { signal, command }) {
    const { settings, adaptations } = await readAll(command, flags);
    refuseUnused(command, [
      ...settingRules(settings),
      { flags: ['check'], goesWith: '--relay', holds: settings.relay.length > 0 },
    ]);
    const made = { ...(await makePlan(settings, flags, signal)), adaptations };
    writeOut(flags.json ? asJson(written(made)) : formatPlan(made));
    const isHopeless = made.relays.length > 0 && !made.relays.some(({ carries }) => carries);
    if (isHopeless) process.exitCode = exitCodes.failed.code;
  },
});

/** Combines preset, file and flags, in this order; the run name and relays are optional here. */
async function readAll(
  command: Command,
  flags: PlanFlags,
): Promise<Pick<PlanReport, 'adaptations'> & { readonly settings: Settings }> {
  const file = flags.settings === undefined ? {} : await settingsFromFile(flags.settings);
  const given: PartialSettings = { ...file, ...settingsFromFlags(command) };
  const model = requestedModel(given);
  if (model === undefined && flags.payloadBytes === undefined) {
    throw new ConfigError('flag/model', 'nothing to plan: give --model NAME or --payload-bytes N', {
      hint: `the models are ${Object.keys(presets).join(', ')}`,
    });
  }
  const presetName = model ?? 'char-gpt';
  const requested = { run: 'plan', relay: [], ...given, model: presetName };
  return {
    settings: combineSettings(presets[presetName], requested),
    adaptations: model === undefined ? [] : adaptedSettings(presets[presetName], requested),
  };
}

async function makePlan(
  settings: Settings,
  flags: PlanFlags,
  signal: AbortSignal,
): Promise<Omit<PlanReport, 'adaptations'>> {
  const { workersPerIp, roundSeconds } = flags;
  const { rounds, profile, run, stripe, heartbeatInterval } = settings;
  const workers = flags.workers ?? expectedWorkers(settings);
  const urls = settings.relay.length === 0 ? [] : parseRelayUrls(settings.relay);
  if (urls.length > 0) erasureOver(urls, stripe);
  const estimate = await measure(settings, workers, flags.payloadBytes, signal);
  const { payloadBytes, checkpointBytes } = estimate;
  const rateNeeds = { heartbeatSeconds: heartbeatInterval, workersPerIp };
  const whole = protocolOf(settings).sizes;
  const sizes = { profile, whole, run, payloadBytes, checkpointBytes, stripe };
  const input = { ...sizes, workers, relays: urls.map(withoutSecrets), roundSeconds, ...rateNeeds };
  const cost = roundCost(input);
  const { fixedEvents, sent } = cost;
  const facts = await factsOfAll(urls, flags.check === true, signal);
  const relays = facts.map((each) => judgeFit(each, { cost, roundSeconds, ...rateNeeds }));
  const hasModel = flags.payloadBytes === undefined;
  const { owners, fragments, packing, outerLearningRate, momentum } = settings;
  const sharing = { owners, fragments, packing, outerLearningRate, momentum };
  const advice = advise({ input, workersPerIp, relays });
  return {
    model: hasModel ? settings.model : undefined,
    parameters: estimate.parameters,
    sharing: hasModel ? sharing : undefined,
    rounds,
    workersPerIp,
    input,
    cost,
    relays,
    advice,
    total: { events: sent.events * workers * rounds, bytes: sent.bytes * workers * rounds },
    floorSeconds: floorSeconds({ ...PUBLIC_BUDGET, ...rateNeeds, fixedEvents }),
  };
}

async function measure(
  settings: Settings,
  workers: number,
  payloadBytes: number | undefined,
  signal: AbortSignal,
): Promise<Partial<Estimate> & Pick<Estimate, 'payloadBytes'>> {
  if (payloadBytes !== undefined) return { payloadBytes };
  const opened = isImported(settings)
    ? await openImportedTask(settings)
    : settings.model === 'pretrained' &&
      (await openBase(settings, { onNotice: writeNote, signal }));
  const layout = opened ? modelLayout(opened.model) : layoutOf(settings);
  return estimatePayload(settings, layout, workers, writeNote);
}

async function factsOfAll(
  urls: readonly string[],
  isTried: boolean,
  signal: AbortSignal,
): Promise<readonly RelayFacts[]> {
  if (urls.length === 0) return [];
  if (!isTried) return Promise.all(urls.map((url) => askRelay(url, signal)));
  return (await checkRelaysWithPorts(urls, { timeLimitMs: CHECK_MS, signal })).map(factsOf);
}

/** JSON has no Infinity: null means "no round is long enough" or "no limit". */
const written = ({ input: { whole: _, ...input }, ...rest }: PlanReport) => ({
  ...input,
  ...rest,
});
