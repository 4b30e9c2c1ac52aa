/** Readers for parts of a run spec by their tables; unknown, missing or invalid members are reported by path. */

import { ConfigError } from '../../base/errors.ts';
import { isObject, type Untyped } from '../../base/shape.ts';
import type { Group, Values } from '../field.ts';
import { fields } from '../options.ts';
import { type SettingName, settingNames, spell } from '../settings.ts';
import { type VariantValues, variantFields, variantTags } from './spec-table.ts';

type VariantName = keyof typeof variantTags;

/** Reads all fields of a table; all must be present. */
export function readFields<G extends Group>(object: Untyped, group: G, path: string): Values<G> {
  const read = Object.entries(group).map(([name, field]) => {
    const value = memberOf(object, name, path, field.accepted);
    return [name, field.read(value, path + name)];
  });
  return Object.fromEntries(read) as Values<G>;
}

/** Reads an object with exactly the fields of a table. */
export function readGroup<G extends Group>(
  parent: Untyped,
  name: string,
  group: G,
  path = '',
): Values<G> {
  const names = Object.keys(group);
  const object = objectOf(parent, name, names, path);
  const at = `${path}${name}.`;
  refuseUnknown(object, names, at);
  return readFields(object, group, at);
}

/** Reads an object whose tag selects its table. */
export function readVariant<K extends VariantName>(parent: Untyped, name: K): VariantValues[K] {
  const groups: Readonly<Record<string, Group>> = variantFields[name];
  const { tag } = variantTags[name];
  const object = objectOf(parent, name, [tag]);
  const words = Object.keys(groups);
  const accepted = `one of ${words.join(', ')}`;
  const chosen = memberOf(object, tag, `${name}.`, accepted);
  const word = words.find((each) => each === chosen);
  if (word === undefined) throw wrong(`${name}.${tag}`, chosen, accepted);
  const group = groups[word]!;
  refuseUnknown(object, [tag, ...Object.keys(group)], `${name}.`, ` where ${tag} is ${word}`);
  return { [tag]: word, ...readFields(object, group, `${name}.`) } as VariantValues[K];
}

/** Reads a member that must be an object; `names` are listed in the error. */
export function objectOf(
  parent: Untyped,
  name: string,
  names: readonly string[],
  path = '',
): Untyped {
  const accepted = `an object of ${names.join(', ')}`;
  const value = memberOf(parent, name, path, accepted);
  if (isObject(value)) return value;
  throw wrong(path + name, value, accepted);
}

/** Reads a member that must be present. */
export function memberOf(object: Untyped, name: string, path: string, accepted: string): unknown {
  if (Object.hasOwn(object, name) && object[name] !== undefined) return object[name];
  throw new ConfigError('spec/missing', `${path}${name} is missing; it must be ${accepted}`, {
    hint: '`nostrain run create FILE` fills in what a file leaves out',
    data: { at: path + name },
  });
}

/** Throws `spec/unknown` if an object has an unknown member. */
export function refuseUnknown(
  object: Untyped,
  known: readonly string[],
  path: string,
  condition = '',
): void {
  const name = Object.keys(object).find((each) => !known.includes(each));
  if (name === undefined) return;
  const at = path + name;
  if (path === 'training.' && settingNames.includes(name as SettingName)) {
    const { scope } = fields[name as SettingName];
    const hint =
      scope === 'personal' || scope === 'alone'
        ? `each worker has its own: use ${spell(name as SettingName)} with \`nostrain run join\``
        : 'a spec has it in another section, or on its top level';
    throw new ConfigError('spec/unknown', `${at} is not shared by the workers of a run`, { hint });
  }
  throw new ConfigError('spec/unknown', `${at} is unknown${condition}`, {
    hint: `${path === '' ? 'a spec' : path.slice(0, -1)} has ${known.join(', ')}`,
    data: { at },
  });
}

/** Returns the error for an invalid value. */
export const wrong = (at: string, value: unknown, accepted: string): ConfigError =>
  new ConfigError('spec/value', `${at} is ${JSON.stringify(value)}; it must be ${accepted}`, {
    data: { at },
  });
