/** Which flag goes with what: a flag that would do nothing beside the others is refused, never ignored. */
import type { Command } from 'commander';
import { ConfigError } from '../base/errors.ts';
import { ruleForms } from '../run/aggregation.ts';
import { formOf, runDataOf } from '../run/data-forms.ts';
import {
  adapterNames,
  fillingPackings,
  isOfText,
  type SettingName,
  type Settings,
} from '../run/settings.ts';

export interface FlagRule {
  /** As commander names them: `relayRetries`. */
  readonly flags: readonly string[];
  /** What they go with, in words that follow "goes with". */
  readonly goesWith: string;
  /** Whether that is so here. */
  readonly holds: boolean;
}

/** Throws `flag/unused` at the first flag that was typed and goes with something else. */
export function refuseUnused(command: Command, rules: readonly FlagRule[]): void {
  for (const { flags, goesWith, holds } of rules) {
    const name = flags.find((each) => command.getOptionValueSource(each) === 'cli');
    if (holds || name === undefined) continue;
    const option = command.options.find((each) => each.attributeName() === name);
    throw new ConfigError('flag/unused', `${option?.long ?? name} goes with ${goesWith}`, {
      hint: 'leave it out: it would do nothing here',
    });
  }
}

interface SettingRule {
  readonly flags: readonly SettingName[];
  readonly goesWith: string;
  holds(settings: Settings): boolean;
}

const isGpt = ({ model }: Settings): boolean => model === 'gpt' || model === 'char-gpt';
const isOfPatches = (settings: Settings): boolean => runDataOf(settings).input.length > 0;
const isPretrained = ({ model }: Settings): boolean => model === 'pretrained';
const isNative = ({ profile }: Settings): boolean => profile === 'nostrain/1';

const OF_TEXT = 'models of text (--model char-gpt, gpt, pretrained)';

/** Settings that mean something beside some others only. */
const settingTable: readonly SettingRule[] = [
  {
    flags: ['width', 'layers', 'heads', 'ffn'],
    goesWith:
      'models of text of our own, forecaster and vit (--model char-gpt, gpt, forecaster, vit)',
    holds: (settings) => isGpt(settings) || isOfPatches(settings),
  },
  {
    flags: ['tokens'],
    goesWith: 'models of text of our own (--model char-gpt, gpt)',
    holds: isGpt,
  },
  {
    flags: ['context'],
    goesWith: `${OF_TEXT} and --model forecaster`,
    holds: (settings) => isOfText(settings) || settings.model === 'forecaster',
  },
  {
    flags: ['recompute'],
    goesWith: 'transformers (--model char-gpt, gpt, pretrained, forecaster, vit)',
    holds: (settings) => isOfText(settings) || isOfPatches(settings),
  },
  {
    flags: ['horizon', 'forecastError', 'scaling'],
    goesWith: '--model forecaster',
    holds: ({ model }) => model === 'forecaster',
  },
  { flags: ['pixels'], goesWith: '--model vit', holds: ({ model }) => model === 'vit' },
  { flags: ['patch'], goesWith: '--model forecaster or vit', holds: isOfPatches },
  { flags: ['base', ...adapterNames], goesWith: '--model pretrained', holds: isPretrained },
  {
    flags: ['basePrecision'],
    goesWith: 'adapters on a base (--model pretrained, --rank above 0)',
    holds: (settings) => isPretrained(settings) && settings.rank > 0,
  },
  {
    flags: ['tiers'],
    goesWith: OF_TEXT,
    holds: isOfText,
  },
  { flags: ['tier'], goesWith: '--tiers', holds: ({ tiers }) => tiers > 0 },
  { flags: ['helperRotation'], goesWith: '--tiers', holds: ({ tiers }) => tiers > 0 },
  {
    flags: ['helper'],
    goesWith: '--helper-rotation and a --tier above 0',
    holds: ({ helperRotation, tier }) => helperRotation > 0 && tier !== '0' && tier !== 'auto',
  },
  {
    flags: ['tierStrategy'],
    goesWith: '--tiers and --model pretrained',
    holds: (settings) => isPretrained(settings) && settings.tiers > 0,
  },
  { flags: ['hidden'], goesWith: '--model mlp', holds: ({ model }) => model === 'mlp' },
  {
    flags: ['weightDecay'],
    goesWith: '--optimizer adamw or muon',
    holds: ({ optimizer }) => optimizer !== 'sgd',
  },
  {
    flags: ['packing', 'owners', 'fragments', 'normalize', 'stripe'],
    goesWith: '--profile nostrain/1',
    holds: isNative,
  },
  {
    flags: ['hostile', 'before'],
    goesWith: 'rules that withstand hostile rows (--rule trimmed-mean, krum and others)',
    holds: ({ rule }) => ruleForms[rule] !== 'mean',
  },
  {
    flags: ['leastSteps'],
    goesWith: '--inner-seconds',
    holds: ({ innerSeconds }) => innerSeconds > 0,
  },
  {
    flags: ['eventBudget'],
    goesWith: '--packing auto, scaled and rotated of nostrain/1',
    holds: (settings) =>
      isNative(settings) && ['auto', ...fillingPackings].includes(settings.packing),
  },
  {
    flags: ['topk'],
    goesWith: '--packing topk-sign and --profile nostrain/0',
    holds: (settings) => !isNative(settings) || settings.packing === 'topk-sign',
  },
  {
    flags: ['codec', 'checkpointHistory'],
    goesWith: '--profile nostrain/0',
    holds: (settings) => !isNative(settings),
  },
];

/** The table for these settings. */
export const settingRules = (settings: Settings): readonly FlagRule[] => [
  ...settingTable.map((rule) => ({ ...rule, holds: rule.holds(settings) })),
  {
    flags: ['corpus'],
    goesWith: 'models of text, series and pictures',
    holds: formOf(settings) !== 'rows',
  },
];

/** How to deal with relays, for commands that may ask none. */
export const connectionFlagNames: readonly string[] = [
  'relay',
  'timeout',
  'relayRetries',
  'relayRetryBackoff',
  'relayRetryBackoffMax',
  'relayRetryBackoffMultiplier',
  'relayRate',
  'relayMaxEventBytes',
  'relayCopies',
];
