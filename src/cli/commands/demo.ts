/** `nostrain demo NAME`: the flags of all demos, and which demo takes which; loads the demo from `demos/`. */

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
  /** Its flags besides those that every demo takes. */
  readonly takes: readonly string[];
  run(flags: DemoFlags): Promise<number>;
}

/** Demos in which workers train one model over a relay and nothing else. */
const training = (
  name: 'gpt' | 'linear' | 'finetune' | 'series' | 'images',
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
  certified: {
    takes: ['dir', 'corpus'],
    run: async (flags) => (await import('../../../demos/certified/run.ts')).runCertifiedDemo(flags),
  },
  browser: {
    takes: ['dir', 'rounds', 'innerSteps', 'corpus'],
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

/** A flag that some demos take and this one does not is refused with the names of those that do. */
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
    'what to train on: a text or .jsonl file, or the https address of one; ' +
      'series: a CSV; images: a folder of pictures',
  ),
  base: text(
    '<model>',
    'finetune: folder, .gguf file or hf:owner/name (default: SmolLM2, or a small one made here)',
  ),
  certified: toggle(
    'finetune, series, images, elastic: as a certified run, ' +
      'whose rounds a committee of the workers signs',
  ),
  relay: several('<url>', 'use this relay instead of starting one, repeatable'),
  profile: parsed('<name>', fields.profile.help, (text) => fields.profile.read(text, '--profile')),
  settings: text('<file>', 'other settings as JSON, for every worker'),
  dir: text('<dir>', 'keep the workers there (default: your data folder, replaced each time)'),
  reference: toggle('linear: with the data and settings of the Python reference'),
  quick: toggle('a minute instead of several: fewer rounds and steps'),
  long: toggle('many workers and rounds, until together beats alone'),
  attack: text('<name>', 'byzantine: what hostile workers do (default: sign-flip)'),
  hostile: parsed('<f/n>', 'byzantine: hostile workers of all (default: 2/8)', (text) =>
    fields.shard.read(text, '--hostile'),
  ),
  rule: text('<name>', 'byzantine: what is set against them (default: clipped-mean)'),
  table: toggle('byzantine: every attack against every rule, or those of --attack, --rule'),
  skewed: toggle('byzantine: each worker trains on its own range of the text'),
  seeds: whole('<n>', 'byzantine: means of so many seeds, from --seed on', 1, 100),
  keep: text('<file>', 'byzantine: save each battle there as it ends, and play none that is in it'),
  picture: text('<file>', 'byzantine: draw the table as SVG'),
  headless: toggle('plain lines even on a terminal'),
  json: toggle('one JSON document on stdout, everything else on stderr'),
};

const demoCommand = (): Command =>
  commandWith(
    'demo',
    'train one model with four worker processes over a local relay',
    demoFlags,
  ).addArgument(new Argument('<name>', 'what to train').choices(Object.keys(demos)));
