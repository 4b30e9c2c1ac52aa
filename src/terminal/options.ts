/** Adds options of a table to a command, each as a flag or as `--set name=value`, and reads what was typed. */

import { type Command, Option } from 'commander';
import { ConfigError, NostrainError } from '../base/errors.ts';
import { isObject, type Untyped } from '../base/shape.ts';
import { readJsonFile } from '../node/files/documents.ts';
import { formOf } from '../run/data-forms.ts';
import { choice, dashed, distance, type Field, type Group, row, SWITCH } from '../run/field.ts';
import { fields } from '../run/options.ts';
import { removedSettings } from '../run/removed.ts';
import {
  isSetting,
  type PartialSettings,
  readSettings,
  requirements,
  type Settings,
  settingNames,
  spell,
} from '../run/settings.ts';
import { presets } from '../run/spec/presets.ts';
import { groupFields, plainFields, variantFields, variantTags } from '../run/spec/spec-table.ts';

type Row = Field<unknown>;

/** An option of an earlier version; using it throws with the replacement. */
class ReplacedOption extends Option {}

/** Reports whether a flag only exists to report its replacement. */
export const isReplaced = (option: Option): boolean => option instanceof ReplacedOption;

const tables = new WeakMap<Command, Map<string, Row>>();

/** Returns the options of a command that are typed as `--set name=value`. */
export const setOptionsOf = (command: Command): ReadonlyMap<string, Row> =>
  tables.get(command) ?? new Map();

const choices = new WeakMap<Option, readonly string[]>();

/** Returns the words of a choice, also where there are too many to list in the help. */
export const wordsOf = (option: Option): readonly string[] | undefined => choices.get(option);

/** Adds a row of the table of options to a command. */
export function addRow(command: Command, name: string, each: Row, isUnchecked = false): void {
  if (each.flag === undefined) addSetOption(command, name, each);
  else command.addOption(flagOption(name, each, isUnchecked));
}

/** Scopes of settings that describe the training. */
const SHARED: readonly string[] = ['training', 'adapter', 'input', 'top'];

/** Returns `--batch-size` of `--batch-size <n>`. */
const longFlag = (flags: string): string => /--[a-z-]+/.exec(flags)![0];

const repeatable = (flags: string, help: string): Option =>
  new Option(flags, help).argParser((value: string, before: readonly string[] = []) => [
    ...before,
    value,
  ]);

function flagOption(name: string, each: Row, isUnchecked: boolean): Option {
  const flag = each.flag!;
  const help = helpWithDefault(name, each);
  const option = each.many ? repeatable(flag, help) : new Option(flag, help);
  if (each.words) choices.set(option, each.words);
  const isChecked = !isUnchecked && !each.many && each.accepted !== SWITCH;
  if (isChecked) option.argParser((text) => checked(text, each, longFlag(flag)));
  if (isSetting(name) && SHARED.includes(fields[name].scope)) option.helpGroup('Training:');
  return each.python ? option.hideHelp() : option;
}

/** Checks a value with its row, and reports an error as an invalid command line. */
function checked(text: string, { read }: Pick<Row, 'read'>, name: string): string {
  asFlagError(() => read(text, name));
  return text;
}

function asFlagError<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof NostrainError ? flagError(error) : error;
  }
}

const flagError = (cause: NostrainError): ConfigError =>
  new ConfigError('flag/value', cause.message, { cause, ...(cause.hint && { hint: cause.hint }) });

function addSetOption(command: Command, name: string, each: Row): void {
  const table = tables.get(command) ?? new Map<string, Row>();
  if (!tables.has(command)) {
    tables.set(command, table);
    command.addOption(
      new Option('--set <name=value>', 'any other option; repeatable').argParser(
        (text: string, before: readonly string[] = []) => {
          assign(command, text);
          return [...before, text];
        },
      ),
    );
    for (const [setting, { hint }] of removedSettings) {
      const removed = new ReplacedOption(`${dashed(setting)} [value]`, 'removed').hideHelp();
      command.addOption(removed);
      command.on(`option:${removed.name()}`, () => {
        throw new ConfigError('flag/removed', `${dashed(setting)} was removed`, { hint });
      });
    }
  }
  table.set(name, each);
  const old = each.was ?? dashed(name);
  const takes = each.accepted === SWITCH ? '' : ' [value]';
  const replaced = new ReplacedOption(old + takes, `replaced by --set ${name}`).hideHelp();
  command.addOption(replaced);
  command.on(`option:${replaced.name()}`, (value: string | null) => {
    const now = `--set ${name}=${takes === '' ? 'true' : (value ?? 'VALUE')}`;
    throw new ConfigError('flag/replaced', `${old} is now ${now}`, { hint: `type ${now}` });
  });
}

function assign(command: Command, text: string): void {
  const [, name = text, value] = /^([\w.]+)=(.*)$/s.exec(text) ?? [];
  const each = setOptionsOf(command).get(name);
  if (each === undefined) throw unknownOption(command, name, value);
  if (value === undefined) {
    throw new ConfigError('flag/set', `--set ${name} has no value`, {
      hint: `use --set ${name}=VALUE, where VALUE is ${each.accepted}`,
    });
  }
  const read = asFlagError(() => each.read(given(command, name, each, value), `--set ${name}`));
  command.setOptionValueWithSource(name, read, 'cli');
}

function given(command: Command, name: string, { many, accepted }: Row, text: string): unknown {
  if (many) return [...((command.getOptionValue(name) as string[]) ?? []), ...text.split(',')];
  if (accepted === SWITCH && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function unknownOption(command: Command, name: string, value = 'VALUE'): ConfigError {
  const flag = command.options.find(
    (option) => option.attributeName() === name && !isReplaced(option),
  );
  if (flag !== undefined) {
    const isSwitch = flag.isBoolean() || flag.negate;
    const now = isSwitch ? flag.long! : `${flag.long} ${value}`;
    return new ConfigError('flag/set', `${name} has a flag of its own: ${now}`, { hint: now });
  }
  const near = [...setOptionsOf(command).keys()].filter(
    (each) => each.toLowerCase().includes(name.toLowerCase()) || distance(each, name) <= 2,
  );
  const did = near.length === 0 ? '' : `did you mean ${near.slice(0, 3).join(' or ')}? `;
  return new ConfigError('flag/set', `unknown option ${JSON.stringify(name)}`, {
    hint: `${did}\`nostrain help settings\` lists all`,
  });
}

/** Returns the help of an option with its default, unless the model determines it. */
function helpWithDefault(name: string, each: Row): string {
  const words = defaultWords(name, each);
  return words === '' || words.includes(';') ? each.help : `${each.help} (default: ${words})`;
}

/** Returns the default as text; empty if there is none to show. */
export function defaultWords(name: string, each: Row): string {
  const write: (value: never) => string = each.write ?? String;
  const worded = (value: unknown) =>
    value === undefined || typeof value === 'boolean' ? '' : write(value as never);
  if (!isSetting(name) || each.help !== fields[name].help) return worded(each.default);
  const [text, regression] = ['char-gpt', 'linear'].map((model) =>
    worded((presets[model as keyof typeof presets] as PartialSettings)[name]),
  );
  if (!text) return '';
  return text === regression ? text : `${text}; ${regression} for linear and mlp`;
}

/**
 * Returns the typed settings; a `--no-…` flag counts only if it was typed. Reports invalid values as an invalid command
 * line.
 */
export const settingsFromFlags = (command: Command): PartialSettings =>
  asFlagError(() => settingsAsTyped(command));

/** Like settingsFromFlags, but an invalid value throws the error of its setting. */
export function settingsAsTyped(command: Command): PartialSettings {
  const typed: Record<string, unknown> = {};
  for (const name of settingNames) {
    if (command.getOptionValueSource(name) !== 'cli') continue;
    const value: unknown = command.getOptionValue(name);
    // --set values are already parsed
    typed[name] = isObject(value) ? value : fields[name].read(value, spell(name));
  }
  return typed as PartialSettings;
}

const FORM =
  'use the form {"model": "char-gpt", "rounds": 5}; `nostrain help settings` lists the names';

/** Reads the settings of a JSON file. Throws `settings/file` if it is not an object. */
export async function settingsFromFile(file: string): Promise<PartialSettings> {
  const words = { code: 'settings/file', what: 'the settings file', hint: FORM };
  const values = await readJsonFile(file, words);
  if (isObject(values)) return readSettings(values, file);
  throw new ConfigError('settings/file', `${file} is not a JSON object of settings`, {
    hint: FORM,
  });
}

/** A field of a run spec as an option of `run create`. */
export interface SpecOption {
  /** Name such as `committee.size`; a field that is also a setting has the name of the setting. */
  readonly name: string;
  readonly path: readonly [string, string?];
  readonly row: Row;
}

/** All fields of a run spec that are options, each once. */
export const specOptions: readonly SpecOption[] = (() => {
  const collected = new Map<string, SpecOption>();
  const add = (path: SpecOption['path'], each: Row) => {
    const [section, field] = path;
    const isOfSettings =
      field !== undefined && ['aggregation', 'pace', 'mixture'].includes(section);
    const name = isOfSettings ? field : path.join('.');
    if (!collected.has(name)) collected.set(name, { name, path, row: each });
  };
  for (const [name, each] of Object.entries<Row>(plainFields)) add([name], each);
  for (const [section, group] of Object.entries<Group>(groupFields)) {
    for (const [name, each] of Object.entries(group)) add([section, name], each);
  }
  for (const [section, { tag, help }] of Object.entries(variantTags)) {
    const variants: Readonly<Record<string, Group>> =
      variantFields[section as keyof typeof variantFields];
    add([section, tag], row(help, choice(Object.keys(variants))));
    for (const group of Object.values(variants)) {
      for (const [name, each] of Object.entries(group)) add([section, name], each);
    }
  }
  return [...collected.values()];
})();

/** Returns the typed fields of a spec as a document. Adds the variant tag if only one variant has the field. */
export function documentFromFlags(command: Command): Untyped {
  const document: Record<string, unknown> = {};
  for (const { name, path, row } of specOptions) {
    const attribute = row.flag === undefined ? name : new Option(row.flag).attributeName();
    if (command.getOptionValueSource(attribute) !== 'cli') continue;
    const value: unknown = command.getOptionValue(attribute);
    const [section, field] = path;
    const before = document[section];
    document[section] =
      field === undefined
        ? value
        : { ...impliedTag(section, field), ...(isObject(before) ? before : {}), [field]: value };
  }
  return document;
}

function impliedTag(section: string, field: string): Untyped {
  if (!Object.hasOwn(variantFields, section)) return {};
  const name = section as keyof typeof variantFields;
  const variants = Object.entries<Group>(variantFields[name]);
  const having = variants.filter(([, group]) => Object.hasOwn(group, field));
  return having.length === 1 ? { [variantTags[name].tag]: having[0]![0] } : {};
}

/** A condition for using some flags. */
export interface FlagRule {
  /** Names as in commander, such as `relayRetries`. */
  readonly flags: readonly string[];
  /** Text that follows "goes with". */
  readonly goesWith: string;
  readonly holds: boolean;
}

/**
 * Throws `flag/unused` at the first typed option whose condition does not hold, so that no option is silently ignored.
 */
export function refuseUnused(command: Command, rules: readonly FlagRule[]): void {
  for (const { flags, goesWith, holds } of rules) {
    const name = flags.find((each) => command.getOptionValueSource(each) === 'cli');
    if (holds || name === undefined) continue;
    const option = command.options.find((each) => each.attributeName() === name);
    const long = setOptionsOf(command).has(name) ? `--set ${name}` : (option?.long ?? name);
    throw new ConfigError('flag/unused', `${long} goes with ${goesWith}`, {
      hint: 'leave it out: it has no effect here',
    });
  }
}

/** Returns the conditions of all settings, for these settings. */
export const settingRules = (settings: Settings): readonly FlagRule[] => [
  ...settingNames.flatMap((name) => {
    const { needs } = (fields as Group)[name]!;
    if (needs === undefined) return [];
    const { goesWith, holds } = requirements[needs as keyof typeof requirements];
    return [{ flags: [name], goesWith, holds: holds(settings) }];
  }),
  {
    flags: ['corpus'],
    goesWith: 'models of text, series and pictures',
    holds: formOf(settings) !== 'rows',
  },
];
