/** `nostrain demo NAME`: the flags of all demos, and which demo takes which; loads the demo from `demos/`. */
import { Argument, Command, Option } from 'commander';
import { elasticOptions } from '../../../demos/elastic/flags.ts';
import type { DemoFlags } from '../../../demos/shared/stage.ts';
import { fields } from '../../run/options.ts';
import { repeatable, whole } from '../../terminal/flags.ts';
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

const demoCommand = (): Command =>
  new Command('demo')
    .description('train one model with four worker processes over a local relay')
    .addArgument(new Argument('<name>', 'what to train').choices(Object.keys(demos)))
    .addOption(whole('--workers <n>', 'worker processes (4, or 8 with --long)', 1, 64))
    .addOption(whole('--rounds <n>', fields.rounds.help, 1))
    .addOption(whole('--inner-steps <n>', fields.innerSteps.help, 1))
    .addOption(whole('--seed <n>', fields.seed.help, 0).default(1))
    .option(
      '--corpus <file>',
      'what to train on: a text or .jsonl file, or the https address of one; ' +
        'series: a CSV; images: a folder of pictures',
    )
    .option(
      '--base <model>',
      'finetune: folder, .gguf file or hf:owner/name (default: SmolLM2, or a small one made here)',
    )
    .option(
      '--certified',
      'finetune, series, images, elastic: as a certified run, ' +
        'whose rounds a committee of the workers signs',
    )
    .addOption(repeatable('--relay <url>', 'use this relay instead of starting one, repeatable'))
    .addOption(
      new Option('--profile <name>', fields.profile.help).argParser((text) =>
        fields.profile.read(text, '--profile'),
      ),
    )
    .option('--settings <file>', 'other settings as JSON, for every worker')
    .option('--dir <dir>', 'keep the workers there (default: your data folder, replaced each time)')
    .option('--reference', 'linear: with the data and settings of the Python reference')
    .option('--quick', 'a minute instead of several: fewer rounds and steps')
    .option('--long', 'many workers and rounds, until together beats alone')
    .option('--attack <name>', 'byzantine: what hostile workers do (default: sign-flip)')
    .addOption(
      new Option('--hostile <f/n>', 'byzantine: hostile workers of all (default: 2/8)').argParser(
        (text) => fields.shard.read(text, '--hostile'),
      ),
    )
    .option('--rule <name>', 'byzantine: what is set against them (default: clipped-mean)')
    .option('--table', 'byzantine: every attack against every rule, or those of --attack, --rule')
    .option('--skewed', 'byzantine: each worker trains on a stretch of its own')
    .addOption(whole('--seeds <n>', 'byzantine: means of so many seeds, from --seed on', 1, 100))
    .option(
      '--keep <file>',
      'byzantine: save each battle there as it ends, and play none that is in it',
    )
    .option('--picture <file>', 'byzantine: draw the table as SVG')
    .option('--headless', 'plain lines even on a terminal')
    .option('--json', 'one JSON document on stdout, everything else on stderr');
