/** `nostrain demo NAME`: declares the flags of all demos and which demo takes which; loads the demo from `demos/`. */

import { Argument, type Command } from 'commander';
import { elasticOptions } from '../../../demos/elastic/flags.ts';
import type { DemoFlags } from '../../../demos/shared/stage.ts';
import { fields } from '../../run/options.ts';
import {
  commandWith,
  parsed,
  several,
  text,
  toggle,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import { refuseUnused } from '../../terminal/options.ts';

interface Demo {
  /** Flags in addition to those that every demo takes. */
  readonly takes: readonly string[];
  run(flags: DemoFlags): Promise<number>;
}

/** A demo in which workers train one model over a relay. */
const training = (
  name: 'gpt' | 'linear' | 'finetune' | 'series' | 'images' | 'onnx',
  takes: readonly string[],
): Demo => ({
  takes: ['dir', 'rounds', 'innerSteps', 'workers', 'relay', 'settings', ...takes],
  run: async (flags) => (await import('../../../demos/train/run.ts')).runTrainingDemo(name, flags),
});

const demos: Readonly<Record<string, Demo>> = {
  gpt: training('gpt', ['corpus', 'profile', 'long']),
  linear: training('linear', ['profile', 'long', 'reference']),
  finetune: training('finetune', ['corpus', 'base', 'certified']),
  series: training('series', ['corpus', 'certified']),
  images: training('images', ['corpus', 'certified']),
  onnx: training('onnx', ['certified']),
  notes: {
    takes: ['dir', 'rounds', 'innerSteps', 'workers', 'settings', 'base', 'certified'],
    run: async (flags) => (await import('../../../demos/notes/run.ts')).runNotesDemo(flags),
  },
  certified: {
    takes: ['dir', 'corpus'],
    run: async (flags) => (await import('../../../demos/certified/run.ts')).runCertifiedDemo(flags),
  },
  browser: {
    takes: ['dir', 'rounds', 'innerSteps', 'corpus', 'base'],
    run: async (flags) => (await import('../../../demos/browser/run.ts')).runBrowserDemo(flags),
  },
  byzantine: {
    takes: [
      'rounds',
      'innerSteps',
      'corpus',
      'attack',
      'hostile',
      'rule',
      'table',
      'skewed',
      'seeds',
      'keep',
      'picture',
    ],
    run: async (flags) => (await import('../../../demos/byzantine/run.ts')).runAttackLab(flags),
  },
  sealed: {
    takes: ['dir', 'rounds', 'innerSteps'],
    run: async (flags) => (await import('../../../demos/sealed/run.ts')).runSealedDemo(flags),
  },
  experts: {
    takes: ['dir', 'innerSteps', 'corpus'],
    run: async (flags) => (await import('../../../demos/experts/run.ts')).runExpertsDemo(flags),
  },
  elastic: {
    takes: [
      'dir',
      'rounds',
      'innerSteps',
      'settings',
      'corpus',
      'certified',
      'tiers',
      'controls',
      'latency',
      'loss',
      'bandwidth',
    ],
    run: async (flags) => (await import('../../../demos/elastic/run.ts')).runElasticDemo(flags),
  },
};

export function demo(): Command {
  const command = demoCommand();
  for (const option of elasticOptions()) command.addOption(option);
  return command.action(async (name: string, flags: DemoFlags) => {
    refuseUnused(command, [
      ...flagRules(name),
      { flags: ['seed'], goesWith: 'demos without --reference', holds: flags.reference !== true },
    ]);
    process.exitCode = await demos[name]!.run(flags);
  });
}

/** Returns the rules that refuse a flag which this demo does not take, naming the demos that do. */
const flagRules = (name: string) =>
  [...new Set(Object.values(demos).flatMap(({ takes }) => takes))].map((flag) => {
    const takers = Object.keys(demos).filter((each) => demos[each]!.takes.includes(flag));
    const goesWith = `demo ${takers.join(', ')}`;
    return { flags: [flag], goesWith, holds: takers.includes(name) };
  });

const demoFlags = {
  workers: whole('<n>', 'worker processes (4, or 8 with --long)', 1, 64),
  rounds: whole('<n>', fields.rounds.help, 1),
  innerSteps: whole('<n>', fields.innerSteps.help, 1),
  seed: withDefault(whole('<n>', fields.seed.help, 0), 1),
  corpus: text(
    '<file>',
    'what to train on: a text or .jsonl file, or its https address; ' +
      'series: a CSV; images: a folder of pictures',
  ),
  base: text(
    '<model>',
    'finetune, notes, browser: folder, .gguf file or hf:owner/name ' +
      '(finetune, notes: default SmolLM2, or a small generated model)',
  ),
  certified: toggle(
    'finetune, notes, series, images, onnx, elastic: as a certified run, in which a ' +
      'committee signs each round',
  ),
  relay: several('<url>', 'use this relay instead of starting one, repeatable'),
  profile: parsed('<name>', fields.profile.help, (text) => fields.profile.read(text, '--profile')),
  settings: text('<file>', 'JSON file with other settings for every worker'),
  dir: text('<dir>', 'folder for the workers (default: in your data folder, replaced each time)'),
  reference: toggle('linear: use the data and settings of the Python reference'),
  quick: toggle('fewer rounds and steps: about a minute'),
  long: toggle('many workers and rounds, until training together beats training alone'),
  attack: text('<name>', 'byzantine: what hostile workers do (default: sign-flip)'),
  hostile: parsed('<f/n>', 'byzantine: hostile workers out of all (default: 2/8)', (text) =>
    fields.shard.read(text, '--hostile'),
  ),
  rule: text('<name>', 'byzantine: aggregation rule (default: clipped-mean)'),
  table: toggle(
    'byzantine: table of every attack against every rule, or only of --attack and --rule',
  ),
  skewed: toggle('byzantine: each worker trains on its own range of the text'),
  seeds: whole('<n>', 'byzantine: average over n seeds, starting at --seed', 1, 100),
  keep: text('<file>', 'byzantine: save each result to this file and skip results already in it'),
  picture: text('<file>', 'byzantine: also draw the table as SVG to this file'),
  headless: toggle('print plain lines even on a terminal'),
  json: toggle('print one JSON document on stdout, everything else on stderr'),
};

const demoCommand = (): Command =>
  commandWith(
    'demo',
    'train one model with four worker processes over a local relay',
    demoFlags,
  ).addArgument(new Argument('[name]', 'what to train').choices(Object.keys(demos)).default('gpt'));
