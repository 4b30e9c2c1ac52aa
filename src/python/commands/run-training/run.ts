/** `run-training STATE DATASET`: the Python reference's command, with its settings, files and silence. */

import { join } from 'node:path';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { loadKey } from '../../../node/files/keys.ts';
import { roundName } from '../../../run/round-name.ts';
import {
  type PartialSettings,
  paceSettings,
  ruleSettings,
  type SettingName,
  type Settings,
  spell,
} from '../../../run/settings.ts';
import { combineSettings, referenceDefaults } from '../../../run/spec/presets.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { type Interrupt, Interrupted } from '../../../terminal/interrupt.ts';
import { writeNote, writeResult } from '../../../terminal/output.ts';
import { createReporter } from '../../../terminal/reporter.ts';
import { assertWritable, writeState } from '../../../terminal/state-flags.ts';
import type { WorkerFlags } from '../../../terminal/worker-flags.ts';
import type { WorkerEvent } from '../../../worker/events.ts';
import { assertCompatible } from '../../node/run-training-session.ts';
import { flipped } from '../../wire/messages.ts';
import { jsonText, sessionSummary } from './artifacts.ts';
import type { ReferenceFlags } from './flags.ts';
import { type Played, playReference } from './play.ts';

type Flags = WorkerFlags & ReferenceFlags;

export interface ReferenceCommand {
  /** Files. */
  readonly state: string;
  readonly dataset: string;
  readonly asked: PartialSettings;
}

/** Plays to the end and writes what the flags name; without `-o` the final state is all that goes to stdout. */
export async function runReference(
  { state, dataset, asked }: ReferenceCommand,
  flags: Flags,
  { signal }: Interrupt,
): Promise<void> {
  assertWritable(flags);
  const settings = settingsOf(asked, flags);
  const reporter = reporterOf(settings.run, flags);
  const report = (event: WorkerEvent) => reporter.event(event);
  try {
    const keys = join(dataHome(), 'keys');
    const { secretKey, notices } = await loadKey({ ...flags, dir: flags.dir ?? keys });
    for (const message of notices) report({ type: 'notice', message });
    const played = await playReference({
      flags,
      settings,
      secretKey,
      report,
      signal,
      dir: flags.dir,
      stateFile: state,
      datasetFile: dataset,
      connection: connectionOf(flags),
    });
    reporter.close();
    await writeFiles(played, flags);
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    reporter.close();
    const how = flags.dir === undefined ? ' with --resume-latest-checkpoint' : '';
    writeNote(`stopped; the same command${how} goes on`);
    process.exitCode = error.exitCode;
  } finally {
    reporter.close();
  }
}

/** What another model, another wire or another optimizer would need. */
const MEANINGLESS: readonly SettingName[] = [
  'model',
  'width',
  'layers',
  'heads',
  'context',
  'ffn',
  'hidden',
  'tokens',
  'shard',
  'optimizer',
  'warmupSteps',
  'finalShare',
  'weightDecay',
  'clipNorm',
  'packing',
  'eventBudget',
  'owners',
  'fragments',
  'normalize',
  'stripe',
  ...ruleSettings,
  ...paceSettings,
];

function settingsOf(asked: PartialSettings, flags: Flags): Settings {
  const odd = MEANINGLESS.find((name) => asked[name] !== undefined);
  if (odd !== undefined) {
    throw new ConfigError('flag/reference', `${spell(odd)} means nothing with STATE and DATASET`, {
      hint: 'leave it out: such runs train as the Python reference does; --model NAME trains in our ways',
    });
  }
  if (asked.profile === 'nostrain/1') {
    throw new ConfigError(
      'flag/profile',
      'STATE and DATASET are trained over --set profile=nostrain/0',
      { hint: 'leave profile out, or train with --model linear or mlp' },
    );
  }
  const { profile: _, ...rest } = asked;
  const settings = combineSettings(referenceDefaults, { model: 'linear', ...rest });
  assertCompatible(settings, flags);
  if (flags.dir !== undefined && (flags.resumeFrom ?? flags.resumeLatestCheckpoint)) {
    throw new ConfigError('flag/dir', '--dir keeps the state itself: there is nothing to resume', {
      hint: 'leave --dir or the checkpoint out',
    });
  }
  return settings;
}

/** A live view where a person watches, else nothing but notices on stderr, as the Python reference is silent; or what was asked for. */
function reporterOf(run: string, flags: Flags) {
  const { report, output } = flags;
  const stream = report === undefined || output === undefined ? process.stderr : process.stdout;
  if (report === undefined && !stream.isTTY) {
    return {
      event(event: WorkerEvent) {
        if (event.type === 'notice') writeNote(safeLine(event.message));
        if (event.type === 'divergence') writeNote(DIVERGED(event));
      },
      close: () => undefined,
    };
  }
  const reporter = createReporter(report, { title: `run ${run}`, workers: ['me'], stream });
  return {
    event: (event: WorkerEvent) => reporter.event('me', event),
    close: () => reporter.close(),
  };
}

const DIVERGED = ({ round, peer, ours, theirs }: Extract<WorkerEvent, { type: 'divergence' }>) =>
  `${roundName(round)}: ${safeLine(peer.slice(0, 16))} holds ${safeLine(theirs.slice(0, 16))}, this worker ${ours.slice(0, 16)}`;

async function writeFiles({ state, facts }: Played, flags: Flags): Promise<void> {
  const { runtime } = facts;
  await writeState({ ...state.params, runtime }, flags);
  if (flags.momentumOut !== undefined) {
    const momentum = { layout: state.params.layout, values: flipped(state.momentum), runtime };
    await writeState(momentum, { ...flags, output: flags.momentumOut });
  }
  if (flags.summaryOut === undefined) return;
  await writeResult(jsonText(sessionSummary(state, facts)), flags.summaryOut);
}
