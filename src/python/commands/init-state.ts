/** `nostrain init-state`: where a regression starts, exactly as the Python reference makes it. */
import { Command, Option } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { initialState } from '../regression/initial-state.ts';
import { above0, decimal, integer } from './number-flags.ts';
import { addStateOutput, type StateOutput, writeState } from './state-formats.ts';

interface Flags extends StateOutput {
  readonly runtime: 'linear-regression' | 'mlp-regression';
  readonly features: number;
  readonly hiddenSize?: number;
  readonly seed: bigint;
  readonly weightScale: number;
}

/** Any whole number: Python's generator takes them all. */
function seedFlag(text: string): bigint {
  if (/^\s*[+-]?[0-9]{1,1000}\s*$/.test(text)) return BigInt(text.trim().replace('+', ''));
  throw new ConfigError(
    'flag/value',
    `--seed is ${JSON.stringify(text)}; it must be a whole number`,
  );
}

export const initState = (): Command =>
  addStateOutput(
    new Command('init-state')
      .description('write the initial state of a regression model')
      .addOption(
        new Option('--runtime <name>', 'which model')
          .choices(['linear-regression', 'mlp-regression'])
          .default('linear-regression'),
      )
      .addOption(integer('--features <n>', 'inputs of an example', 1).makeOptionMandatory())
      .addOption(integer('--hidden-size <n>', 'mlp-regression: width of the hidden layer', 1))
      .addOption(
        new Option('--seed <n>', 'random seed of the weights').argParser(seedFlag).default(0n, '0'),
      )
      .addOption(
        decimal(
          '--weight-scale <x>',
          'largest random weight, before scaling by width',
          above0,
        ).default(0.1),
      ),
  ).action(async (flags: Flags) => {
    const { runtime } = flags;
    if (runtime === 'mlp-regression' && flags.hiddenSize === undefined) {
      throw new ConfigError('state/hidden-size', 'mlp-regression needs --hidden-size', {
        hint: 'for example --hidden-size 8',
      });
    }
    await writeState({ ...initialState(runtime, flags), runtime }, flags);
  });
