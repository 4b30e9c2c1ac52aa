/**
 * Writes the files of `--artifact-dir`, `--checkpoint-out` and `--summary-out`: the results of each round, named as in
 * the Python reference.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { difference } from '../../../formats/arithmetic.ts';
import { indentedJson, type PythonJson, type PythonObject } from '../../../formats/python-json.ts';
import { stateToJson } from '../../../formats/state-json.ts';
import type { Tracked } from '../../../network/transport/delivery.ts';
import { stateDigest, type Vector } from '../../../tensor/params.ts';
import { writeOutput } from '../../../terminal/output.ts';
import { type ForeignNstrLimits, readNstr } from '../../codec/payload.ts';
import { flipped } from '../../wire/messages.ts';
import { publishingMembers, reportPublishing } from '../../wire/publishing.ts';
import {
  isPending,
  lateGradientJson,
  type RoundRecord,
  reconciliationJson,
  roundRecord,
} from '../../wire/records.ts';
import { collectedWhole, eventJson, openReferenceEvent } from '../../wire/reference-event.ts';
import { retryTotals } from '../../wire/retries.ts';
import { noHistory, type PythonState, type RoundTrace } from '../../worker/session.ts';
import { payloadJson } from '../files.ts';

export interface ArtifactOptions {
  readonly run: string;
  readonly dir: string | undefined;
  readonly retention: number | undefined;
  readonly checkpointOut: string | undefined;
  readonly checkpointHistory: number;
  /** Members of `local-training.json` except the losses. */
  readonly training: PythonObject;
  /** Limits of the payloads of the round. */
  readonly limits: ForeignNstrLimits;
}

/** Writes the artifacts of one round, under the Python reference's file names. */
export async function writeArtifacts(trace: RoundTrace, options: ArtifactOptions): Promise<void> {
  const { checkpoint } = trace;
  const { dir, checkpointOut } = options;
  if (dir !== undefined) {
    const round = `round-${four(trace.before.round)}`;
    await writeAll(join(dir, round), roundFiles(trace, options));
    await writeAll(dir, checkpointFiles(trace, options));
    await keepNewest(dir, trace, options);
  }
  if (checkpointOut !== undefined && checkpoint) {
    await writeAll('', { [checkpointOut]: checkpoint.content });
  }
}

const four = (number: number): string => String(number).padStart(4, '0');

type Files = Readonly<Record<string, PythonObject | undefined>>;

async function writeAll(dir: string, files: Files): Promise<void> {
  for (const [name, json] of Object.entries(files)) {
    if (json === undefined) continue;
    const file = join(dir, name);
    // a problem with the folder is reported when the file is written
    await mkdir(dirname(file), { recursive: true }).catch(() => undefined);
    await writeOutput(file, jsonText(json));
  }
}

function roundFiles(trace: RoundTrace, options: ArtifactOptions): Files {
  const { before, after, local, mean, heartbeat, gradient, checkpoint, late } = trace;
  const { layout } = before.params;
  const record = after.history!.records.at(-1)!;
  const state = (values: Vector) => stateToJson({ layout, values });
  const done = after.history!.reconciliations.find(({ round }) => round === before.round);
  return {
    'base-state.json': state(before.params.values),
    'local-state.json': local && state(local.values),
    'local-delta.json': local && stateToJson(difference(before.params, local)),
    'payload.json': gradient && payloadOf(gradient, options),
    'heartbeat.json': eventOf(heartbeat),
    'heartbeat-publish.json': publishOf(heartbeat),
    'event.json': eventOf(gradient),
    'event-publish.json': publishOf(gradient),
    'collection.json': collectionOf(trace, record, options),
    'aggregated-delta.json': mean && state(flipped(mean.mean)),
    'next-state.json': state(after.params.values),
    'momentum-state.json': state(flipped(after.momentum)),
    'local-training.json': local && {
      ...options.training,
      example_count: BigInt(record.examples),
      loss_before: record.losses.before,
      loss_after: record.losses.afterInner,
    },
    'late-gradients.json': late && { events: late.map(lateGradientJson) },
    'late-reconciliation.json': done && reconciliationJson(done),
    'checkpoint.json': checkpoint?.content,
    'checkpoint-event.json': eventOf(checkpoint?.tracked),
    'checkpoint-publish.json': publishOf(checkpoint?.tracked),
  };
}

function checkpointFiles({ before, checkpoint }: RoundTrace, options: ArtifactOptions): Files {
  const slot = `checkpoints/slot-${four(before.round % options.checkpointHistory)}`;
  const event = eventOf(checkpoint?.tracked);
  const publish = publishOf(checkpoint?.tracked);
  return {
    'checkpoint.json': checkpoint?.content,
    'checkpoint-event.json': event,
    'checkpoints/latest.json': checkpoint?.content,
    'checkpoints/latest-event.json': event,
    'checkpoints/latest-publish.json': publish,
    [`${slot}.json`]: checkpoint?.content,
    [`${slot}-event.json`]: event,
    [`${slot}-publish.json`]: publish,
  };
}

/** Deletes the oldest rounds beyond the limit, and returns which remain. */
async function keepNewest(dir: string, trace: RoundTrace, options: ArtifactOptions): Promise<void> {
  const { retention, checkpointHistory } = options;
  const rounds = (await readdir(dir))
    .flatMap((name) => /^round-(\d+)$/.exec(name)?.[1] ?? [])
    .sort((a, b) => Number(a) - Number(b));
  const pruned = retention === undefined ? [] : rounds.slice(0, -retention);
  for (const name of pruned) await rm(join(dir, `round-${name}`), { recursive: true });
  const { round } = trace.before;
  const numbers = (names: readonly string[]) => names.map(BigInt);
  await writeAll(dir, {
    'retention.json': {
      checkpoint_history: BigInt(checkpointHistory),
      artifact_retention_rounds: retention === undefined ? null : BigInt(retention),
      latest_round: BigInt(round),
      latest_checkpoint_slot: BigInt(round % checkpointHistory),
      retained_rounds: numbers(rounds.slice(pruned.length)),
      pruned_rounds: numbers(pruned),
      checkpoint_slots: trace.after.history!.records.slice(-checkpointHistory).map((record) => ({
        slot: BigInt(record.round % checkpointHistory),
        round: BigInt(record.round),
        next_round: BigInt(record.round + 1),
        model_hash_after: record.digestAfter,
      })),
    },
  });
}

const eventOf = (tracked: Tracked | undefined): PythonObject | undefined =>
  tracked && eventJson(tracked.event);

const publishOf = (tracked: Tracked | undefined): PythonObject | undefined =>
  tracked && publishingMembers(reportPublishing(tracked.event.id, tracked.outcomes));

function payloadOf({ event }: Tracked, { limits }: ArtifactOptions): PythonObject | undefined {
  const { content: payload } = event;
  const read = readNstr(payload, limits);
  return read.ok ? payloadJson({ payload, stats: read.value.stats }) : undefined;
}

/** Returns the collection of a round. One connection per relay serves all, so there are no collecting attempts. */
const collectionOf = (
  { cohort }: RoundTrace,
  record: RoundRecord,
  { run, limits }: ArtifactOptions,
): PythonObject => ({
  relays: record.relays.configured,
  successful_relays: record.relays.collected,
  run,
  round: BigInt(record.round),
  event_count: BigInt(cohort.length),
  workers: record.collectedWorkers,
  known_workers: record.knownWorkers,
  completion_reason: record.reason,
  aggregation_weighted: record.weighted,
  total_aggregation_weight: BigInt(record.totalWeight),
  events: cohort.flatMap((event): PythonJson[] => {
    const read = openReferenceEvent(event, limits);
    return read.ok ? [collectedWhole(read.value)] : [];
  }),
});

/** Facts of a session's summary other than its rounds; the first five members are written unchanged. */
export interface SessionFacts {
  readonly run: string;
  readonly worker: string;
  readonly relays: readonly string[];
  readonly runtime: string;
  readonly backend: string;
  /** First round of this session, if no earlier rounds are known. */
  readonly startRound: number;
  readonly checkpointHistory: number;
  readonly artifactRetentionRounds: number | undefined;
}

/** Returns the JSON that `--summary-out` writes. */
export function sessionSummary(
  state: PythonState,
  { startRound, checkpointHistory, artifactRetentionRounds: kept, ...who }: SessionFacts,
): PythonObject {
  const { records, late, reconciliations } = state.history ?? noHistory;
  const retries = records.map((record) => record.retries);
  return {
    ...who,
    start_round: BigInt(records[0]?.round ?? startRound),
    rounds_completed: BigInt(records.length),
    final_model_hash: stateDigest(state.params),
    checkpoint_history: BigInt(checkpointHistory),
    artifact_retention_rounds: kept === undefined ? null : BigInt(kept),
    late_gradient_count: BigInt(late.length),
    reconciled_late_gradient_count: BigInt(late.filter(({ folded }) => folded).length),
    pending_late_gradient_count: BigInt(late.filter(isPending).length),
    late_gradient_error_count: BigInt(late.filter(({ error }) => error !== undefined).length),
    relay_retry_count: BigInt(retries.reduce((sum, each) => sum + each.retries, 0)),
    max_relay_attempt_count: BigInt(
      Math.max(retryTotals([]).mostAttempts, ...retries.map(({ mostAttempts }) => mostAttempts)),
    ),
    retried_relays: [...new Set(retries.flatMap(({ retriedRelays }) => retriedRelays))],
    rounds: records.map(roundRecord),
    ...(late.length === 0 ? {} : { late_gradients: late.map(lateGradientJson) }),
    ...(reconciliations.length === 0
      ? {}
      : { late_reconciliations: reconciliations.map(reconciliationJson) }),
  };
}

/** Formats JSON like the Python reference: indented by two spaces, with a final newline. */
export const jsonText = (json: PythonObject): string => `${indentedJson(json)}\n`;
