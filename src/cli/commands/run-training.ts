/** `nostrain run-training`: trains as one worker of a run; the same command resumes it. */

import { join } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { isLoopbackRelay, isRelayUrl } from '../../network/transport/relay-urls.ts';
import { dataHome } from '../../node/files/data-home.ts';
import { runFolderOf } from '../../node/files/local-runs.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { keptSettings } from '../../node/files/stored-settings.ts';
import { lastingBase } from '../../node/pretrained/base-model.ts';
import {
  assertNoReferenceFlags,
  referenceFlags,
} from '../../python/commands/run-training/flags.ts';
import { runReference } from '../../python/commands/run-training/run.ts';
import { formOf } from '../../run/data-forms.ts';
import { completeSettings, type PartialSettings, type Settings } from '../../run/settings.ts';
import { assertAgreeable } from '../../run/settings-rules.ts';
import { describeAdaptation } from '../../run/spec/adaptation.ts';
import {
  adaptedSettings,
  combineSettings,
  presets,
  requestedModel,
} from '../../run/spec/presets.ts';
import { askText, canAsk, isWithin } from '../../terminal/ask.ts';
import { defineCommand, type Invocation } from '../../terminal/command.ts';
import { connectionOf } from '../../terminal/connection.ts';
import { eachWith, type FlagValues, settingFlags, text } from '../../terminal/flag-table.ts';
import {
  type FlagRule,
  refuseUnused,
  settingRules,
  settingsAsTyped,
  settingsFromFile,
  settingsFromFlags,
} from '../../terminal/options.ts';
import { writeNote } from '../../terminal/output.ts';
import { assertWritable, stateFormatFlag, stateOutputFlags } from '../../terminal/state-flags.ts';
import { workerFlags } from '../../terminal/worker-flags.ts';
import { fetchFiles, fetchFlags } from '../shared/chunks.ts';
import { memberFlagNames, memberFlags, privateRelaysFlag } from '../shared/member-flags.ts';
import { protocolOf } from '../shared/protocol.ts';
import { runWorkerCommand } from '../shared/run-worker.ts';
import { trainIn } from './run/join.ts';

const MORE = `All other settings: nostrain help settings
With STATE and DATASET, and flags of the Python reference: nostrain help python
With --spec also the flags of \`nostrain run join\`.`;

/** Flags of the Python reference, which `nostrain help python` lists. */
const RARE = ['timeout', 'outputFormat', 'torchCheckpointPayload'];

const trainingFlags = {
  ...eachWith(settingFlags(), { isUnchecked: true }),
  dataset: text('<file>', 'linear, mlp, .onnx: rows to train on, as CSV or JSON'),
  target: text('<column>', 'linear, mlp, .onnx: CSV column to predict'),
  start: text('<state>', 'state file or run folder to start from'),
  task: text('<name>', 'task of an .onnx model: classify, regress or next-token'),
  spec: text('<run>', 'join a run with a spec, like `run join`'),
  allowPrivateRelays: privateRelaysFlag,
  ...workerFlags('--dir; with --spec in your data folder'),
  ...stateOutputFlags,
  ...eachWith(
    { stateFormat: stateFormatFlag, ...memberFlags, ...fetchFlags, ...referenceFlags },
    { isHidden: true },
  ),
};

type RunTrainingFlags = FlagValues<typeof trainingFlags>;

export const runTraining = defineCommand({
  name: 'run-training',
  help: 'train as one worker of a run; run the same command again to resume',
  more: MORE,
  args: [
    ['[state]', 'state to start from, as in the Python reference'],
    ['[dataset]', 'JSON dataset to train on'],
  ],
  flags: trainingFlags,
  finish({ options }) {
    for (const option of options) if (RARE.includes(option.attributeName())) option.hideHelp();
  },
  run: train,
});

/** Returns which flags about state formats this run can use. */
const formRules = (command: Command): readonly FlagRule[] => [
  { flags: ['stateFormat'], goesWith: 'STATE and DATASET', holds: false },
  {
    flags: ['outputFormat', 'torchCheckpointPayload'],
    goesWith: '-o FILE',
    holds: command.getOptionValue('output') !== undefined,
  },
];

/** Flags that the regression trainer of the Python reference does not use. */
const byModel = ['corpus', 'device', 'threads', 'dataset', 'target'];

async function train(
  flags: RunTrainingFlags,
  invocation: Invocation & { readonly args: readonly (string | undefined)[] },
): Promise<void> {
  const {
    args: [state, dataset],
    command,
    signal,
  } = invocation;
  if (flags.spec !== undefined) return trainBySpec(flags.spec, state, flags, invocation);
  if (state !== undefined && dataset === undefined) {
    throw new ConfigError('flag/dataset', 'STATE needs a DATASET after it', {
      hint: 'nostrain run-training state.json dataset.json …, or --model NAME without STATE',
    });
  }
  const file = flags.settings === undefined ? {} : await settingsFromFile(flags.settings);
  const typed = state === undefined ? settingsFromFlags(command) : settingsAsTyped(command);
  const given: PartialSettings = { ...file, ...typed };
  refuseUnused(command, [{ flags: memberFlagNames, goesWith: '--spec', holds: false }]);
  if (state !== undefined && dataset !== undefined) {
    refuseUnused(command, [{ flags: [...byModel, 'start'], goesWith: '--model', holds: false }]);
    await runReference({ state, dataset, settings: given }, flags, signal);
    return;
  }
  assertNoReferenceFlags(command);
  if (flags.output !== undefined) assertWritable(flags);
  const dir = flags.dir ?? (await folderOf(settingsOf(assumingCount(given), command)));
  const kept = await keptSettings(dir);
  const isNew = kept.run === undefined;
  const assumed = settingsOf(isNew ? assumingCount(given) : given, command, kept);
  refuseUnused(command, dataRules(assumed, flags));
  const requested = isNew ? await withWorkerCount(given, signal) : given;
  const localPaths = { corpus: flags.corpus, base: requested.base };
  const { corpus, base } = await fetchFiles(undefined, localPaths, flags, {
    relays: requested.relay ?? [],
    signal,
  });
  const completed = base === undefined ? requested : { ...requested, base };
  const settings = settingsOf(completed, command, kept);
  if (isNew) {
    const changes = adaptedSettings(presets[settings.model], completed);
    for (const each of changes) writeNote(describeAdaptation(each));
  }
  for (const note of [strangersWarning(settings), aloneNote(settings)])
    if (note !== undefined) writeNote(note);
  const start =
    flags.start === undefined ? undefined : await readStateFile(await runFolderOf(flags.start));
  const data = { dataset: flags.dataset, target: flags.target, start };
  const connection = connectionOf(flags);
  const session = { settings, dir, protocol: protocolOf(settings), corpus, connection, ...data };
  await runWorkerCommand(session, flags, { title: `run ${settings.run}`, signal });
}

async function trainBySpec(
  spec: string,
  state: string | undefined,
  flags: RunTrainingFlags,
  invocation: Invocation,
): Promise<void> {
  const { command } = invocation;
  assertNoReferenceFlags(command);
  const rows = { flags: ['dataset', 'target'], goesWith: '--model linear or mlp', holds: false };
  refuseUnused(command, [
    rows,
    { flags: ['start'], goesWith: 'runs without a spec', holds: false },
  ]);
  if (state === undefined) {
    await trainIn(spec, { ...flags, seats: true }, invocation);
    return;
  }
  throw new ConfigError('flag/spec', 'the spec of a run determines its first state', {
    hint: 'leave out STATE and DATASET',
  });
}

/** Combines the preset of the model, the settings that a started run has stored, and the given ones. */
function settingsOf(
  requested: PartialSettings,
  command: Command,
  kept: PartialSettings = {},
): Settings {
  const model = requestedModel(requested);
  if (model === undefined) {
    throw new ConfigError(
      'flag/model',
      'nothing to train: give --model NAME, --base PATH, a --settings file, or STATE and DATASET',
      { hint: `the models are ${Object.keys(presets).join(', ')}` },
    );
  }
  const usual = combineSettings(presets[model], { ...requested, model });
  const merged = completeSettings(usual, kept, requested, { model });
  const settings = { ...merged, base: lastingBase(merged.base) };
  refuseUnused(command, [...settingRules(settings), ...formRules(command)]);
  assertAgreeable(settings);
  return settings;
}

/** Names the folder by run and shard, so that several workers of a run on one machine need no flag. */
async function folderOf({ run, shard: { index, count } }: Settings): Promise<string> {
  const name = run.replace(/[^A-Za-z0-9._-]/g, '_');
  const dir = join(dataHome(), 'runs', name);
  if (count === 1) return dir;
  const { shard } = await keptSettings(dir);
  const isThere = shard?.index === index && shard.count === count;
  return isThere ? dir : `${dir}-${index}-of-${count}`;
}

const dataRules = ({ model }: Settings, { dataset }: RunTrainingFlags) => [
  {
    flags: ['dataset', 'target'],
    goesWith: '--model linear, mlp or an .onnx file of rows; other models read --corpus',
    holds: formOf({ model }) === 'rows',
  },
  { flags: ['target'], goesWith: '--dataset FILE', holds: dataset !== undefined },
  // `src/cli/shared/imported-model.ts` has taken it where the model is an .onnx file
  { flags: ['task'], goesWith: '--model FILE.onnx', holds: false },
];

/** Returns what strangers can do and which flag prevents it; undefined if `--peers` or loopback keeps them out. */
export function strangersWarning({
  peers,
  relay,
}: Pick<Settings, 'peers' | 'relay'>): string | undefined {
  const isReachable = relay.some((url) => isRelayUrl(url) && !isLoopbackRelay(url));
  if (peers.length > 0 || !isReachable) return undefined;
  return (
    'warning: anyone who knows the relay and the name of this run can take part and ruin the ' +
    'model with harmful updates; to count only your own workers, start each with ' +
    '--peers npub1…,npub1…'
  );
}

const MAX_WORKERS = 1024;
const QUESTION = 'How many workers train in this run (1 to train alone)?';

/** Reports whether something says how many workers to wait for; rounds of validators end by the clock. */
const isCounted = ({ sync, waitFor, validators = [] }: PartialSettings): boolean =>
  sync !== undefined || waitFor !== undefined || validators.length > 0;

/** Returns settings with some number of workers, to check the others before anything is asked. */
const assumingCount = (requested: PartialSettings): PartialSettings =>
  isCounted(requested) ? requested : { ...requested, sync: { strategy: 'strict', workers: 2 } };

/**
 * Returns the settings of a new run with the number of workers, which the user is asked for if nothing says it. Throws
 * a ConfigError (`flag/sync`) if there is no terminal to ask at.
 */
async function withWorkerCount(
  requested: PartialSettings,
  signal: AbortSignal,
): Promise<PartialSettings> {
  if (isCounted(requested)) return requested;
  if (!canAsk()) {
    throw new ConfigError('flag/sync', 'nothing says how many workers train in this run', {
      hint: 'add --sync strict:N for N workers; strict:1 trains alone',
    });
  }
  const problem = (answer: string) =>
    isWithin(answer, 1, MAX_WORKERS) ? undefined : `Type a number from 1 to ${MAX_WORKERS}.`;
  const workers = Number(await askText({ message: QUESTION, problem }, signal));
  return { ...requested, sync: { strategy: 'strict', workers } };
}

/** Returns what to know about a run of one worker; undefined if others are waited for. */
const aloneNote = ({ sync }: PartialSettings): string | undefined =>
  sync?.strategy === 'strict' && sync.workers === 1
    ? 'this run has a single worker, which waits for no other; --sync strict:N is for N workers'
    : undefined;
