/** `nostrain tiers`: cuts a published model into smaller tiers, for machines that cannot hold the full model. */

import { ConfigError } from '../../base/errors.ts';
import { formatBytes } from '../../base/numbers.ts';
import { exportTiers, findTier, type TierLoad } from '../../node/pretrained/tier-files.ts';
import { MANIFEST, MAX_TIER } from '../../pretrained/tiers/tier.ts';
import { tierStrategies } from '../../run/spec/model-spec.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import {
  choice,
  parsed,
  repeated,
  required,
  text,
  toggle,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';

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

const exportCommand = defineCommand({
  name: 'export',
  help: 'write tiers of a model into sibling folders, with a manifest of all files',
  flags: {
    src: required(text('<dir>', 'folder of the full model, as transformers loads it')),
    tiers: required(
      repeated(parsed('<n...>', 'tiers to write: 1 is half as wide, 2 a quarter', readTier)),
    ),
  },
  async run({ src, tiers }, { signal }) {
    const onFolder = (folder: string, bytes: number) =>
      writeOut(`${folder}: ${formatBytes(bytes)}\n`);
    const { sha256 } = await exportTiers(src, tiers, { signal, onFolder, onNotice: writeNote });
    writeOut(`${MANIFEST} in ${src}: ${sha256.size} files with their sha256\n`);
  },
});

const inspectCommand = defineCommand({
  name: 'inspect',
  help: 'show what a worker of a tier loads from a model, after verifying every file',
  args: [['<dir>', 'folder of the full model, or of one tier']],
  flags: {
    tier: withDefault(whole('<n>', '0 is the full model, 1 half as wide', 0, MAX_TIER), 0),
    strategy: withDefault(
      choice('<name>', 'the slice if it is whole, else all; the slice; or all', tierStrategies),
      'auto',
    ),
    json: toggle('print JSON'),
  },
  async run({ tier, strategy, json }, { args: [folder], signal }) {
    const load = await findTier(folder, { tier, strategy, signal, onNotice: writeNote });
    if (json) return writeOut(asJson(load));
    if (load.notice !== undefined) writeNote(load.notice);
    writeOut(`${words(load).join('\n')}\n`);
  },
});

const words = ({ folder, tier, slicing, schema, verified }: TierLoad): readonly string[] => [
  `folder    ${folder}`,
  `tier      ${tier}${slicing > 0 ? `, width halved ${slicing} times on load` : ''}`,
  `verified  ${verified === 0 ? 'nothing: there is no manifest here' : `${verified} files`}`,
  `schema    ${schema}`,
];

export const tiers = defineGroup(
  'tiers',
  'cut a published model into MatFormer tiers, and see what a machine of one loads',
  [exportCommand, inspectCommand],
);
