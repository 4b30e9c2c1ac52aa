/** `nostrain tiers export`: narrower models in folders beside a model, and a manifest of all. */
import { Command, Option } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { formatBytes } from '../../../base/numbers.ts';
import { exportTiers } from '../../../node/pretrained/tier-files.ts';
import { MANIFEST } from '../../../pretrained/tiers/manifest.ts';
import { MOST_TIER } from '../../../pretrained/tiers/tier.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { writeOut } from '../../../terminal/output.ts';

function readTiers(text: string, before: readonly number[] = []): readonly number[] {
  const tier = Number(text);
  if (Number.isSafeInteger(tier) && tier >= 1 && tier <= MOST_TIER) return [...before, tier];
  throw new ConfigError(
    'flag/value',
    `--tiers is ${text}; it must be numbers from 1 to ${MOST_TIER}`,
    {
      hint: 'tier 1 is half as wide, tier 2 a quarter: --tiers 1 2',
    },
  );
}

export const exportCommand = (): Command =>
  new Command('export')
    .description('write tiers of a model into folders beside it, with a manifest of all files')
    .requiredOption('--src <dir>', 'folder of the whole model, as transformers loads it')
    .addOption(
      new Option('--tiers <n...>', 'tiers to write: 1 is half as wide, 2 a quarter')
        .argParser(readTiers)
        .makeOptionMandatory(),
    )
    .action(({ src, tiers }: { readonly src: string; readonly tiers: readonly number[] }) =>
      interruptibly(async (signal) => {
        const onFolder = (folder: string, bytes: number) =>
          writeOut(`${folder}: ${formatBytes(bytes)}\n`);
        const { sha256 } = await exportTiers(src, tiers, { signal, onFolder });
        writeOut(`${MANIFEST} in ${src}: ${sha256.size} files with their sha256\n`);
      }),
    );
