/**
 * Commands that read a run of the Python reference from relays: collect or average a round, list workers, checkpoints.
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

const jsonFlags = resultFlags('print one JSON document, the events in it');

/** What collect-events and aggregate-round have in common. */
const roundFlags = {
  ...listeningFlags,
  round: required(integer('<n>', 'the round, from 0', 0)),
  limit: integer('<n>', 'stop when this many workers are in', 1),
  sync: withDefault(
    choice(
      '<strategy>',
      'what to wait for: silence (timeout), all known workers (strict), most of them (quorum), ' +
        'or nothing beyond what relays store (async)',
      ['timeout', 'strict', 'quorum', 'async'],
    ),
    'timeout',
  ),
  discoverWorkers: toggle('look for heartbeats first; strict and quorum always do'),
  heartbeatSince: integer(
    '<unix>',
    'only heartbeats from this time on, unix seconds (default: --since)',
    0,
  ),
  heartbeatIdleTimeout: decimal(
    '<s>',
    'the idle timeout while looking for heartbeats, in seconds (default: --idle-timeout)',
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
    'verified, each worker once, in the same order everywhere',
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
    summaryOut: text('<file>', 'write there what was collected, as JSON without the events'),
    output: outputFlag,
  },
  async run(flags, _, ports) {
    const { output, summaryOut } = flags;
    const collected = await readRound('aggregate-round', flags, ports);
    const mean = meanOf(collected);
    const bases = new Set(collected.events.map(({ read }) => read.tags.model));
    // the mean of updates made from different states is a step of none; the Python reference takes it without a word
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
      hint: 'look for the round with collect-events, or wait longer with --idle-timeout S',
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

/** A delta of another model is the doing of whoever sent it, not of a file. */
const otherModel = (cause: ConfigError): ConfigError =>
  new ConfigError(cause.code, cause.message, {
    hint: 'not everybody in this run trains the same model: use another --run name',
    cause,
  });

export const discoverWorkers = pythonCommand({
  name: 'discover-workers',
  description:
    'list the workers of a run by their heartbeats, ' +
    'on the wire of the Python reference or on nostrain/1',
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
  '"latest" claims the highest round, and anybody can claim that. ' +
    'What speaks for a state is its author, if you know the key',
  '(--worker KEY), or that FAULTS + 1 authors you know publish equal hashes of it; ' +
    'keys cost nothing, so authors you do not know',
  'prove nothing.',
].join('\n');

export const discoverCheckpoints = pythonCommand({
  name: 'discover-checkpoints',
  description: 'list the checkpoints of a run that relays have, and which of them agree',
  after: ABOUT_CHECKPOINTS,
  flags: {
    ...listeningFlags,
    worker: text('<key>', 'only checkpoints of this worker'),
    minRound: integer('<n>', 'only checkpoints of this completed round, from 0, or later ones', 0),
    faults: withDefault(
      integer('<n>', 'how many authors may lie: one more must publish equal hashes', 0),
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
