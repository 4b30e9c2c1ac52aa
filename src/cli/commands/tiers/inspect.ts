/** `nostrain tiers inspect`: what a worker of a tier would load, every file of it held against the manifest. */
import { Command, Option } from 'commander';
import { findTier, type TierLoad } from '../../../node/pretrained/tier-files.ts';
import { MOST_TIER } from '../../../pretrained/tiers/tier.ts';
import { type TierStrategy, tierStrategies } from '../../../run/spec/model-spec.ts';
import { whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';

interface Flags {
  readonly tier: number;
  readonly strategy: TierStrategy;
  readonly json?: boolean;
}

export const inspectCommand = (): Command =>
  new Command('inspect')
    .description('say what a worker of a tier loads of a model, after checking every file of it')
    .argument('<dir>', 'folder of the whole model, or of one tier')
    .addOption(whole('--tier <n>', '0 is the whole model, 1 half as wide', 0, MOST_TIER).default(0))
    .addOption(
      new Option('--strategy <name>', 'the slice if it is whole, else all; the slice; or all')
        .choices(tierStrategies)
        .default('auto'),
    )
    .option('--json', 'print JSON')
    .action((folder: string, { tier, strategy, json }: Flags) =>
      interruptibly(async (signal) => {
        const found = await findTier(folder, { tier, strategy, signal });
        if (json) return writeOut(asJson(found));
        if (found.notice !== undefined) writeNote(found.notice);
        writeOut(`${words(found).join('\n')}\n`);
      }),
    );

const words = ({ folder, tier, slicing, schema, verified }: TierLoad): readonly string[] => [
  `folder    ${folder}`,
  `tier      ${tier}${slicing > 0 ? `, its width to be halved ${slicing} times` : ''}`,
  `verified  ${verified === 0 ? 'nothing: there is no manifest here' : `${verified} files`}`,
  `schema    ${schema}`,
];
