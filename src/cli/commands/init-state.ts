/** `nostrain init-state`: the state a run starts from, as JSON. */
import { Command, Option } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { createMersenneTwister } from '../../base/mersenne-twister.ts';
import { createLayout, type Params } from '../../tensor/params.ts';
import { formatStateJson } from '../../tensor/state-json.ts';
import { wholeFlag } from '../flags.ts';
import { writeResult } from '../output.ts';

interface Flags {
  readonly runtime: 'linear-regression' | 'mlp-regression';
  readonly features: number;
  readonly hiddenSize?: number;
  readonly seed: number;
  readonly weightScale: number;
  readonly output?: string;
}

const positive = (text: string): number => {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new ConfigError(
    'flag/value',
    `--weight-scale is ${JSON.stringify(text)}; it must be a number above 0`,
  );
};

export const initState = (): Command =>
  new Command('init-state')
    .description('write the initial state of a regression model as JSON')
    .addOption(
      new Option('--runtime <name>', 'which model')
        .choices(['linear-regression', 'mlp-regression'])
        .default('linear-regression'),
    )
    .requiredOption('--features <n>', 'inputs of an example', wholeFlag('--features', 1))
    .option(
      '--hidden-size <n>',
      'mlp-regression: width of the hidden layer',
      wholeFlag('--hidden-size', 1),
    )
    .option('--seed <n>', 'of the random weights', wholeFlag('--seed', Number.MIN_SAFE_INTEGER), 0)
    .option('--weight-scale <x>', 'largest random weight, before scaling by width', positive, 0.1)
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (flags: Flags) => {
      const params =
        flags.runtime === 'linear-regression' ? linearState(flags.features) : mlpState(flags);
      await writeResult(formatStateJson(params), flags.output);
    });

function linearState(features: number): Params {
  const layout = createLayout([
    { name: 'linear.bias', shape: [1] },
    { name: 'linear.weight', shape: [1, features] },
  ]);
  return { layout, values: new Float64Array(layout.size) };
}

/** Uniform weights from the Mersenne Twister, hidden ones first: the values the Python reference draws. */
export function mlpState({
  features,
  hiddenSize,
  seed,
  weightScale,
}: Omit<Flags, 'runtime' | 'output'>): Params {
  if (hiddenSize === undefined) {
    throw new ConfigError('state/hidden-size', 'mlp-regression needs --hidden-size', {
      hint: 'for example --hidden-size 8',
    });
  }
  const layout = createLayout([
    { name: 'mlp.hidden.bias', shape: [hiddenSize] },
    { name: 'mlp.hidden.weight', shape: [hiddenSize, features] },
    { name: 'mlp.output.bias', shape: [1] },
    { name: 'mlp.output.weight', shape: [1, hiddenSize] },
  ]);
  const values = new Float64Array(layout.size);
  const draw = createMersenneTwister(seed);
  const fill = (slot: number, scale: number) => {
    const { offset, size } = layout.slots[slot]!;
    for (let i = 0; i < size; i++) values[offset + i] = -scale + (scale + scale) * draw();
  };
  fill(1, weightScale / Math.max(1, Math.sqrt(features)));
  fill(3, weightScale / Math.max(1, Math.sqrt(hiddenSize)));
  return { layout, values };
}
