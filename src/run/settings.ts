/** Settings of a training run, from the table in `options.ts`: reading, completing, writing, and their conditions. */
import { ConfigError } from '../base/errors.ts';
import { type Aggregation, ruleForms } from './aggregation.ts';
import { formOf, isImported, runDataOf } from './data-forms.ts';
import { type Field, type SettingScope, wordsFor } from './field.ts';
import { fields, type packingNames } from './options.ts';
import { withoutRemoved } from './removed.ts';

/** Name of a packing. */
export type PackingName = (typeof packingNames)[number];

/** Name of a setting. */
export type SettingName = keyof typeof fields;

/** All settings, with checked values. */
export type Settings = { readonly [K in SettingName]: ReturnType<(typeof fields)[K]['read']> };

/** Some of the settings, with checked values. */
export type PartialSettings = { readonly [K in SettingName]?: Settings[K] };

/** Value of the setting `residual`. */
export type ResidualRule = Settings['residual'];
export type Normalization = Settings['normalize'];

type Scoped<S extends SettingScope> = {
  [K in SettingName]: (typeof fields)[K]['scope'] extends S ? K : never;
}[SettingName];

/** Names of all settings, in the order of the table of options. */
export const settingNames = Object.keys(fields) as SettingName[];

/** Names of the settings in these scopes, in the order of the table. */
export const namesIn = <S extends SettingScope>(...scopes: readonly S[]): readonly Scoped<S>[] =>
  settingNames.filter((name): name is Scoped<S> =>
    scopes.some((scope) => scope === fields[name].scope),
  );

/** Returns the rows of the settings in this scope. */
export const rowsIn = <S extends SettingScope>(scope: S): Pick<typeof fields, Scoped<S>> =>
  Object.fromEntries(namesIn(scope).map((name) => [name, fields[name]])) as never;

/** Settings for what is trained of a published model: part of `start` in a spec. */
export type AdapterName = Scoped<'adapter'>;
export const adapterNames = namesIn('adapter');

/** Settings for how a model reads series or pictures: part of `input` in a spec. */
export const inputNames = namesIn('input');

/** Settings that a run spec fixes for all workers in its section `training`. */
export type SharedName = Scoped<'training'>;
export type SharedSettings = Pick<Settings, SharedName>;
/** Settings that all workers of a run share. */
export const sharedNames = namesIn('training');

/** Settings that each worker of a run with a spec may choose. */
export const joinNames = namesIn('personal');

/** Settings that only runs without a spec have, or that a spec has in a section of its own. */
export const unspecifiedNames = namesIn('alone', 'agreed', 'top', 'aggregation', 'pace', 'mixture');

/** Settings of the aggregation rule. */
export const ruleSettings = namesIn('aggregation');

/** Names of the settings of time-based local steps. */
export const localStepSettings = namesIn('pace');

/** Settings that all workers of a run without a spec share, in addition to those of their model. */
export const agreedNames = namesIn('top', 'agreed', 'mixture');

/** Returns the aggregation settings. */
export const aggregationOf = (settings: Aggregation): Aggregation => {
  const { rule, hostile, before, leastRatePermille } = settings;
  return { rule, hostile, before, leastRatePermille };
};

/** Reports whether a model is trained on text. */
export const isOfText = (settings: Pick<Settings, 'model'>): boolean =>
  formOf(settings) === 'tokens';

/**
 * Checks every value of a settings file or of parsed flags. Throws `settings/unknown` for an unknown name, listing the
 * known ones.
 */
export function readSettings(
  values: Readonly<Record<string, unknown>>,
  from: string,
): PartialSettings {
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(withoutRemoved(values, from))) {
    if (!isSetting(name)) {
      throw new ConfigError(
        'settings/unknown',
        `${from}: there is no setting ${JSON.stringify(name)}`,
        { hint: `the settings are ${settingNames.join(', ')}` },
      );
    }
    out[name] = fields[name].read(value, `${from}: ${name}`);
  }
  return out as PartialSettings;
}

export const isSetting = (name: string): name is SettingName => Object.hasOwn(fields, name);

/** Returns the words that set a setting on a command line: `--rounds 5`, `--set owners=2`. */
export const typedWords = (name: SettingName, value?: string): readonly string[] =>
  wordsFor(name, fields[name] as Field<unknown>, value);

/** Returns typedWords as one text. */
export const spell = (name: SettingName, value?: string): string =>
  typedWords(name, value).join(' ');

/** Merges layers of settings; later layers win. Throws `settings/missing` for the first setting without a value. */
export function completeSettings(...layers: readonly PartialSettings[]): Settings {
  const merged: Record<string, unknown> = Object.assign({}, ...layers);
  const missing = settingNames.find((name) => merged[name] === undefined);
  if (missing) {
    const { flag = spell(missing, 'VALUE') }: Field<unknown> = fields[missing];
    throw new ConfigError('settings/missing', `${missing} is not set`, {
      hint: `give it with ${flag}, or "${missing}" in the settings file`,
    });
  }
  return merged as Settings;
}

/** Returns settings in the form of a settings file, which `readSettings` reads. */
export function writeSettings(settings: PartialSettings): Readonly<Record<string, unknown>> {
  const written = settingNames.map((name) => {
    const field: { write?(value: never): string } = fields[name];
    const value = settings[name];
    return [name, field.write && value !== undefined ? field.write(value as never) : value];
  });
  return Object.fromEntries(written.filter(([, value]) => value !== undefined));
}

/** A condition of a setting. */
export interface Requirement {
  /** Text that follows "goes with". */
  readonly goesWith: string;
  holds(settings: Settings): boolean;
}

const OF_TEXT = 'models of text (--model char-gpt, gpt, pretrained)';
const isBuiltInTextModel = ({ model }: Settings): boolean =>
  model === 'gpt' || model === 'char-gpt';
const hasTextTokenizer = (settings: Settings): boolean =>
  isBuiltInTextModel(settings) || settings.model === 'onnx-text';
const isOfPatches = ({ model }: Settings): boolean => runDataOf({ model }).input.length > 0;
const isPretrained = ({ model }: Settings): boolean => model === 'pretrained';
const isNative = ({ profile }: Settings): boolean => profile === 'nostrain/1';

type Need = {
  [K in SettingName]: (typeof fields)[K] extends { needs: infer N } ? N : never;
}[SettingName];

/** Conditions by the name in `needs` of the options table. */
export const requirements: Readonly<Record<Need & string, Requirement>> = {
  blocks: {
    goesWith:
      'models of text of our own, forecaster and vit (--model char-gpt, gpt, forecaster, vit)',
    holds: (settings) => isBuiltInTextModel(settings) || isOfPatches(settings),
  },
  transformers: {
    goesWith: 'transformers (--model char-gpt, gpt, pretrained, forecaster, vit)',
    holds: (settings) => isOfText(settings) || isOfPatches(settings),
  },
  text: { goesWith: OF_TEXT, holds: isOfText },
  builtIn: {
    goesWith: 'models of text of our own (--model char-gpt, gpt)',
    holds: isBuiltInTextModel,
  },
  validators: { goesWith: '--set validators', holds: ({ validators }) => validators.length > 0 },
  experts: { goesWith: '--set experts', holds: ({ experts }) => experts > 0 },
  builtInText: {
    goesWith: 'models of text of our own (--model char-gpt, gpt) and of .onnx files',
    holds: hasTextTokenizer,
  },
  context: {
    goesWith: `${OF_TEXT} and --model forecaster`,
    holds: (settings) => isOfText(settings) || settings.model === 'forecaster',
  },
  forecaster: { goesWith: '--model forecaster', holds: ({ model }) => model === 'forecaster' },
  vit: { goesWith: '--model vit', holds: ({ model }) => model === 'vit' },
  mlp: { goesWith: '--model mlp', holds: ({ model }) => model === 'mlp' },
  patches: { goesWith: '--model forecaster or vit', holds: isOfPatches },
  pretrained: { goesWith: '--model pretrained', holds: isPretrained },
  files: {
    goesWith: '--model pretrained or an .onnx file',
    holds: (settings) => isPretrained(settings) || isImported(settings),
  },
  adapters: {
    goesWith: 'adapters on a base (--model pretrained, --rank above 0)',
    holds: (settings) => isPretrained(settings) && settings.rank > 0,
  },
  tiers: { goesWith: '--tiers', holds: ({ tiers }) => tiers > 0 },
  helpers: {
    goesWith: '--set helperRotation and a --tier above 0',
    holds: ({ helperRotation, tier }) => helperRotation > 0 && tier !== '0' && tier !== 'auto',
  },
  slices: {
    goesWith: '--tiers and --model pretrained',
    holds: (settings) => isPretrained(settings) && settings.tiers > 0,
  },
  decay: {
    goesWith: '--optimizer adamw or muon',
    holds: ({ optimizer }) => optimizer !== 'sgd',
  },
  native: { goesWith: '--set profile=nostrain/1', holds: isNative },
  reference: { goesWith: '--set profile=nostrain/0', holds: (settings) => !isNative(settings) },
  robust: {
    goesWith: 'rules that withstand hostile rows (--set rule=trimmed-mean, krum and others)',
    holds: ({ rule }) => ruleForms[rule] !== 'mean',
  },
  innerSeconds: {
    goesWith: '--set innerSeconds',
    holds: ({ innerSeconds }) => innerSeconds > 0,
  },
  budget: {
    goesWith: '--set packing=trellis, of nostrain/1',
    holds: (settings) => isNative(settings) && settings.packing === 'trellis',
  },
};

/** How many local steps a round has: the section `pace` of a spec, or the same settings of a run without one. */
export type LocalSteps = Pick<Settings, 'innerSeconds' | 'leastSteps'>;

/** The default: every worker takes the same fixed number of steps. */
export const fixedLocalSteps: LocalSteps = {
  innerSeconds: fields.innerSeconds.default,
  leastSteps: fields.leastSteps.default,
};

/**
 * Reports whether a contribution may have this many steps: exactly `innerSteps`, or a range if steps are time-based.
 */
export const isAllowedStepCount = (
  steps: number,
  { innerSeconds, leastSteps }: LocalSteps,
  innerSteps: number,
): boolean =>
  innerSeconds === 0 ? steps === innerSteps : steps >= leastSteps && steps <= innerSteps;
