/** `nostrain demo gpt|linear|finetune|series|images|certified|browser|elastic`: a relay and worker processes that share nothing but it; `demo byzantine` is the attack lab. */
import { Argument, Command, Option } from 'commander';
import type { LabFlags } from '../../../demos/byzantine/run.ts';
import { elasticFlagNames, elasticOptions } from '../../../demos/elastic/flags.ts';
import type { ElasticFlags } from '../../../demos/elastic/run.ts';
import { type DemoFlags, type DemoName, demoNames, runDemo } from '../../../demos/train/run.ts';
import { fields } from '../../run/settings.ts';
import { repeatable, whole } from '../../terminal/flags.ts';
import { type FlagRule, refuseUnused } from '../../terminal/unused-flags.ts';

const profileOption = () =>
  new Option(fields.profile.flag, fields.profile.help).argParser((text) =>
    fields.profile.read(text, '--profile'),
  );

export const demo = (): Command => addElasticFlags(demoCommand());

const addElasticFlags = (command: Command): Command =>
  elasticOptions().reduce((all, option) => all.addOption(option), command);

const demoCommand = (): Command =>
  new Command('demo')
    .description('train one model with four worker processes over a local relay')
    .addArgument(
      new Argument('<name>', 'what to train').choices([
        ...demoNames,
        'certified',
        'browser',
        'byzantine',
        'elastic',
      ]),
    )
    .addOption(whole('--workers <n>', 'worker processes (4, or 8 with --long)', 1, 64))
    .addOption(whole('--rounds <n>', fields.rounds.help, 1))
    .addOption(whole('--inner-steps <n>', fields.innerSteps.help, 1))
    .addOption(whole('--seed <n>', fields.seed.help, 0).default(1))
    .option(
      '--corpus <file>',
      'what to train on: a text or .jsonl file, or the https address of one; series: a CSV; images: a folder of pictures',
    )
    .option(
      '--base <model>',
      'finetune: folder, .gguf file or hf:owner/name (default: SmolLM2, or a small one made here)',
    )
    .option(
      '--certified',
      'finetune, series, images, elastic: as a certified run, whose rounds a committee of the workers signs',
    )
    .addOption(repeatable('--relay <url>', 'use this relay instead of starting one, repeatable'))
    .addOption(profileOption())
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
    .option('--json', 'one JSON document on stdout, everything else on stderr')
    .action(async (name: Name, flags: DemoFlags & LabFlags & ElasticFlags, command: Command) => {
      refuseUnused(command, demoRules(name, flags));
      if (name === 'elastic')
        process.exitCode = await (await import('../../../demos/elastic/run.ts')).runElasticDemo(
          flags,
        );
      else if (name === 'byzantine')
        process.exitCode = await (await import('../../../demos/byzantine/run.ts')).runAttackLab(
          flags,
        );
      else if (name === 'browser')
        process.exitCode = await (await import('../../../demos/browser/run.ts')).runBrowserDemo(
          flags,
        );
      else if (name === 'certified')
        process.exitCode = await (await import('../../../demos/certified/run.ts')).runCertifiedDemo(
          flags,
        );
      else process.exitCode = await runDemo(name, flags);
    });

type Name = DemoName | 'certified' | 'browser' | 'byzantine' | 'elastic';

/** Which demo takes what: that of certified rounds is one play, with a cast and relays of its own. */
const demoRules = (name: Name, { reference }: DemoFlags): readonly FlagRule[] => [
  {
    flags: ['workers', 'relay'],
    goesWith: 'demo gpt, linear, finetune, series and images',
    holds: ['gpt', 'linear', 'finetune', 'series', 'images'].includes(name),
  },
  {
    flags: ['settings'],
    goesWith: 'demo gpt, linear, finetune, series, images and elastic',
    holds: ['gpt', 'linear', 'finetune', 'series', 'images', 'elastic'].includes(name),
  },
  {
    flags: elasticFlagNames,
    goesWith: 'demo elastic',
    holds: name === 'elastic',
  },
  {
    flags: ['profile', 'long'],
    goesWith: 'demo gpt and linear',
    holds: name === 'gpt' || name === 'linear',
  },
  {
    flags: ['rounds', 'innerSteps'],
    goesWith: 'demo gpt, linear, finetune, series, images, browser, byzantine and elastic',
    holds: name !== 'certified',
  },
  { flags: ['dir', 'headless'], goesWith: 'other demos', holds: name !== 'byzantine' },
  {
    flags: ['attack', 'hostile', 'rule', 'table', 'skewed', 'seeds', 'keep', 'picture'],
    goesWith: 'demo byzantine',
    holds: name === 'byzantine',
  },
  {
    flags: ['corpus'],
    goesWith: 'demo gpt, finetune, series, images, certified, browser, byzantine and elastic',
    holds: name !== 'linear',
  },
  { flags: ['base'], goesWith: 'demo finetune', holds: name === 'finetune' },
  {
    flags: ['certified'],
    goesWith: 'demo finetune, series, images and elastic',
    holds: ['finetune', 'series', 'images', 'elastic'].includes(name),
  },
  { flags: ['reference'], goesWith: 'demo linear', holds: name === 'linear' },
  { flags: ['seed'], goesWith: 'demos without --reference', holds: reference !== true },
];
