/**
 * Commands that read a run of the Python reference from relays: collect-events, aggregate-round, discover-workers,
 * discover-checkpoints.
 */
import { ConfigError, RelayError, safeLine } from '../../base/errors.ts';
import { indentedJson } from '../../formats/python-json.ts';
import { formatStateJson } from '../../formats/state-json.ts';
import type { Params } from '../../tensor/params.ts';
import {
  choice,
  type FlagValues,
  required,
  text,
  toggle,
  withDefault,
} from '../../terminal/flag-table.ts';
import { asJson, writeNote, writeResult } from '../../terminal/output.ts';
import { outputFlag } from '../../terminal/state-flags.ts';
import { wholeDelta } from '../codec/payload.ts';
import {
  type CollectedGradients,
  discoverCheckpoints as collectCheckpoints,
  collectGradients,
  discoverWorkers as collectWorkers,
  type GradientsQuery,
  weightOf,
} from '../collect/queries.ts';
import { aggregateWeightedDeltas } from '../outer-step.ts';
import { agreements } from '../worker/start.ts';
import {
  above0,
  type CommandPorts,
  decimal,
  integer,
  listeningFlags,
  maxMissedFlag,
  pythonCommand,
  resultFlags,
} from './flags.ts';
import { assertNotNative, nativeWorkers, patienceOf, readRelays } from './relays.ts';
import {
  checkpointsMembers,
  checkpointsText,
  gradientsMembers,
  gradientsText,
  nativeWorkersText,
  workersMembers,
  workersText,
} from './reports.ts';

const jsonFlags = resultFlags('print one JSON document with the events');

/** Flags of collect-events and aggregate-round. */
const roundFlags = {
  ...listeningFlags,
  round: required(integer('<n>', 'round index, from 0', 0)),
  limit: integer('<n>', 'stop after the gradients of this many workers', 1),
  sync: withDefault(
    choice(
      '<strategy>',
      'what to wait for: silence (timeout), all known workers (strict), more than half of them ' +
        '(quorum), or only stored events (async)',
      ['timeout', 'strict', 'quorum', 'async'],
    ),
    'timeout',
  ),
  discoverWorkers: toggle('collect heartbeats first; strict and quorum always do'),
  heartbeatSince: integer(
    '<unix>',
    'only heartbeats from this time on, in Unix seconds (default: --since)',
    0,
  ),
  heartbeatIdleTimeout: decimal(
    '<s>',
    'idle timeout of collecting heartbeats, in seconds (default: --idle-timeout)',
    above0,
  ),
  maxMissedHeartbeats: maxMissedFlag,
};

async function readRound(
  command: string,
  flags: FlagValues<typeof roundFlags>,
  ports: CommandPorts,
): Promise<CollectedGradients> {
  const { run, round, limit, since, sync, heartbeatIdleTimeout } = flags;
  const query: GradientsQuery = {
    run,
    round,
    limit,
    since,
    sync,
    ...patienceOf(flags),
    discover: flags.discoverWorkers,
    heartbeats: {
      idleMs: heartbeatIdleTimeout === undefined ? undefined : heartbeatIdleTimeout * 1000,
      since: flags.heartbeatSince,
      maxMissed: flags.maxMissedHeartbeats,
    },
  };
  const collected = await readRelays(collectGradients, query, flags, ports);
  await assertNotNative(command, collected, flags, ports);
  return collected;
}

export const collectEvents = pythonCommand({
  name: 'collect-events',
  description:
    'collect the gradients of one round from relays: ' +
    'verified, one per worker, in a deterministic order',
  flags: { ...roundFlags, ...jsonFlags },
  async run(flags, _, ports) {
    const collected = await readRound('collect-events', flags, ports);
    const written = flags.json
      ? `${indentedJson(gradientsMembers(collected, true))}\n`
      : gradientsText(collected);
    await writeResult(written, flags.output);
  },
});

export const aggregateRound = pythonCommand({
  name: 'aggregate-round',
  description:
    'collect one round from relays and print the mean of its deltas, weighted by examples',
  flags: {
    ...roundFlags,
    summaryOut: text('<file>', 'write a summary of the collection, as JSON without the events'),
    output: outputFlag,
  },
  async run(flags, _, ports) {
    const { output, summaryOut } = flags;
    const collected = await readRound('aggregate-round', flags, ports);
    const mean = meanOf(collected);
    const bases = new Set(collected.events.map(({ read }) => read.tags.model));
    // the mean of updates made from different states is not a step of any; the reference does not report this
    if (bases.size > 1) {
      writeNote(`note: these gradients were made from ${bases.size} different states`);
    }
    await writeResult(formatStateJson(mean), output);
    if (summaryOut === undefined) return;
    await writeResult(`${indentedJson(gradientsMembers(collected, false))}\n`, summaryOut);
  },
});

function meanOf({ events, run, round, failed }: CollectedGradients): Params {
  if (events.length === 0) {
    const down = failed.map(({ relay, message }) => `; ${relay}: ${safeLine(message)}`).join('');
    throw new RelayError('relay/empty-round', `no gradient of run ${run}, round ${round}${down}`, {
      hint: 'check the round with collect-events, or wait longer with --idle-timeout S',
    });
  }
  const deltas = events.map(({ read }) => ({
    delta: wholeDelta(read.payload),
    weight: weightOf(read),
    name: `the gradient of ${read.tags.worker}`,
  }));
  try {
    return aggregateWeightedDeltas(deltas);
  } catch (error) {
    throw error instanceof ConfigError ? otherModel(error) : error;
  }
}

/** Adds a hint: the delta of another model comes from a worker, not from a file. */
const otherModel = (cause: ConfigError): ConfigError =>
  new ConfigError(cause.code, cause.message, {
    hint: 'the workers of this run train different models: use another --run name',
    cause,
  });

export const discoverWorkers = pythonCommand({
  name: 'discover-workers',
  description:
    'list the workers of a run by their heartbeats, ' +
    'on the wire profile of the Python reference or on nostrain/1',
  flags: {
    ...listeningFlags,
    round: integer('<n>', 'only workers in this round, from 0, or a later one', 0),
    maxMissedHeartbeats: maxMissedFlag,
    ...jsonFlags,
  },
  async run(flags, _, ports) {
    const { run, round, since, json, output, maxMissedHeartbeats: maxMissed } = flags;
    const query = { run, round, since, maxMissed, ...patienceOf(flags) };
    const collected = await readRelays(collectWorkers, query, flags, ports);
    const isEmpty = collected.events.length + collected.stale.length === 0;
    const workers = isEmpty ? await nativeWorkers(query, collected, flags, ports) : [];
    const { relays } = collected;
    const forPeople = () =>
      workers.length > 0 ? nativeWorkersText({ run, relays }, workers) : workersText(collected);
    const asDocument = () =>
      workers.length > 0
        ? asJson({ relays, run, wire: 'nostrain/1', workers })
        : `${indentedJson(workersMembers(collected, true))}\n`;
    await writeResult(json ? asDocument() : forPeople(), output);
  },
});

const ABOUT_CHECKPOINTS = [
  '',
  '"latest" claims the highest round, and any key can claim that. Trust a state if you know the',
  'key of its author (--worker KEY), or if FAULTS + 1 authors that you know publish equal hashes.',
  'Keys cost nothing, so authors that you do not know prove nothing.',
].join('\n');

export const discoverCheckpoints = pythonCommand({
  name: 'discover-checkpoints',
  description: 'list the checkpoints of a run on relays, and which of them agree',
  after: ABOUT_CHECKPOINTS,
  flags: {
    ...listeningFlags,
    worker: text('<key>', 'only checkpoints of this worker'),
    minRound: integer(
      '<n>',
      'only checkpoints of this completed round, from 0, or of later rounds',
      0,
    ),
    faults: withDefault(
      integer('<n>', 'number of authors that may lie: one more must publish equal hashes', 0),
      1,
    ),
    ...jsonFlags,
  },
  async run(flags, _, ports) {
    const { run, worker, minRound, since, faults } = flags;
    const query = { run, worker, minRound, since, ...patienceOf(flags) };
    const collected = await readRelays(collectCheckpoints, query, flags, ports);
    await assertNotNative('discover-checkpoints', collected, flags, ports);
    const states = agreements(collected.events);
    const written = flags.json
      ? `${indentedJson(checkpointsMembers(collected, states, faults))}\n`
      : checkpointsText(collected, states, faults);
    await writeResult(written, flags.output);
  },
});
