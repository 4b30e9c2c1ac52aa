/** `nostrain demo gpt|linear|finetune`: a relay and four worker processes that share nothing but it. */
import { Argument, Command, Option } from 'commander';
import { fields } from '../../../run/settings.ts';
import { repeatable, whole } from '../../../terminal/flags.ts';
import { type FlagRule, refuseUnused } from '../../../terminal/unused-flags.ts';
import { runCertifiedDemo } from './certified/run-certified.ts';
import { type DemoFlags, type DemoName, demoNames, runDemo } from './run-demo.ts';

const profileOption = () =>
  new Option(fields.profile.flag, fields.profile.help).argParser((text) =>
    fields.profile.read(text, '--profile'),
  );

export const demo = (): Command =>
  new Command('demo')
    .description('train one model with four worker processes over a local relay')
    .addArgument(new Argument('<name>', 'what to train').choices([...demoNames, 'certified']))
    .addOption(whole('--workers <n>', 'worker processes (4, or 8 with --long)', 1, 64))
    .addOption(whole('--rounds <n>', fields.rounds.help, 1))
    .addOption(whole('--inner-steps <n>', fields.innerSteps.help, 1))
    .addOption(whole('--seed <n>', fields.seed.help, 0).default(1))
    .option('--corpus <file>', 'text to train on')
    .option(
      '--base <model>',
      'finetune: folder, .gguf file or hf:owner/name (default: SmolLM2, or a small one made here)',
    )
    .addOption(repeatable('--relay <url>', 'use this relay instead of starting one, repeatable'))
    .addOption(profileOption())
    .option('--settings <file>', 'other settings as JSON, for every worker')
    .option('--dir <dir>', 'keep the workers there (default: your data folder, replaced each time)')
    .option('--reference', 'linear: with the data and settings of the Python reference')
    .option('--quick', 'a minute instead of several: fewer rounds and steps')
    .option('--long', 'many workers and rounds, until together beats alone')
    .option('--headless', 'plain lines even on a terminal')
    .option('--json', 'one JSON document on stdout, everything else on stderr')
    .action(async (name: DemoName | 'certified', flags: DemoFlags, command: Command) => {
      refuseUnused(command, demoRules(name, flags));
      process.exitCode = await (name === 'certified'
        ? runCertifiedDemo(flags)
        : runDemo(name, flags));
    });

/** Which demo takes what: that of certified rounds is one play, with a cast and relays of its own. */
const demoRules = (name: DemoName | 'certified', { reference }: DemoFlags): readonly FlagRule[] => [
  {
    flags: ['workers', 'rounds', 'innerSteps', 'relay', 'profile', 'settings', 'long'],
    goesWith: 'demo gpt, linear and finetune',
    holds: name !== 'certified',
  },
  { flags: ['corpus'], goesWith: 'demo gpt, finetune and certified', holds: name !== 'linear' },
  { flags: ['base'], goesWith: 'demo finetune', holds: name === 'finetune' },
  { flags: ['reference'], goesWith: 'demo linear', holds: name === 'linear' },
  { flags: ['seed'], goesWith: 'demos without --reference', holds: reference !== true },
];
