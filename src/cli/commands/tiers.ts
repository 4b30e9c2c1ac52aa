/** `nostrain tiers`: cuts a published model into smaller tiers, for machines that cannot hold the full model. */

import { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { formatBytes } from '../../base/numbers.ts';
import { exportTiers, findTier, type TierLoad } from '../../node/pretrained/tier-files.ts';
import { MANIFEST, MAX_TIER } from '../../pretrained/tiers/tier.ts';
import { tierStrategies } from '../../run/spec/model-spec.ts';
import {
  choice,
  commandWith,
  type FlagValues,
  parsed,
  repeated,
  required,
  text,
  toggle,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';

export const tiers = (): Command =>
  new Command('tiers')
    .description('cut a published model into MatFormer tiers, and see what a machine of one loads')
    .addCommand(exportCommand())
    .addCommand(inspectCommand());

function readTier(text: string): number {
  const tier = Number(text);
  if (Number.isSafeInteger(tier) && tier >= 1 && tier <= MAX_TIER) return tier;
  throw new ConfigError(
    'flag/value',
    `--tiers is ${text}; it must be numbers from 1 to ${MAX_TIER}`,
    {
      hint: 'tier 1 is half as wide as the full model, tier 2 a quarter: --tiers 1 2',
    },
  );
}

const exportFlags = {
  src: required(text('<dir>', 'folder of the full model, as transformers loads it')),
  tiers: required(
    repeated(parsed('<n...>', 'tiers to write: 1 is half as wide, 2 a quarter', readTier)),
  ),
};

const exportCommand = (): Command =>
  commandWith(
    'export',
    'write tiers of a model into sibling folders, with a manifest of all files',
    exportFlags,
  ).action(({ src, tiers }: FlagValues<typeof exportFlags>) =>
    interruptibly(async (signal) => {
      const onFolder = (folder: string, bytes: number) =>
        writeOut(`${folder}: ${formatBytes(bytes)}\n`);
      const { sha256 } = await exportTiers(src, tiers, { signal, onFolder, onNotice: writeNote });
      writeOut(`${MANIFEST} in ${src}: ${sha256.size} files with their sha256\n`);
    }),
  );

const inspectFlags = {
  tier: withDefault(whole('<n>', '0 is the full model, 1 half as wide', 0, MAX_TIER), 0),
  strategy: withDefault(
    choice('<name>', 'the slice if it is whole, else all; the slice; or all', tierStrategies),
    'auto',
  ),
  json: toggle('print JSON'),
};

type TiersFlags = FlagValues<typeof inspectFlags>;

const inspectCommand = (): Command =>
  commandWith(
    'inspect',
    'show what a worker of a tier loads from a model, after verifying every file',
    inspectFlags,
  )
    .argument('<dir>', 'folder of the full model, or of one tier')
    .action((folder: string, { tier, strategy, json }: TiersFlags) =>
      interruptibly(async (signal) => {
        const load = await findTier(folder, { tier, strategy, signal, onNotice: writeNote });
        if (json) return writeOut(asJson(load));
        if (load.notice !== undefined) writeNote(load.notice);
        writeOut(`${words(load).join('\n')}\n`);
      }),
    );

const words = ({ folder, tier, slicing, schema, verified }: TierLoad): readonly string[] => [
  `folder    ${folder}`,
  `tier      ${tier}${slicing > 0 ? `, width halved ${slicing} times on load` : ''}`,
  `verified  ${verified === 0 ? 'nothing: there is no manifest here' : `${verified} files`}`,
  `schema    ${schema}`,
];
