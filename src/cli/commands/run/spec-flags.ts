/** Flags for the fields of a run spec, made from their table, and what a person typed as a document. */
import type { Command, Option } from 'commander';
import { choice, type Field } from '../../../run/field.ts';
import type { Group } from '../../../run/spec/spec-fields.ts';
import { isObject, type Untyped } from '../../../run/spec/spec-readers.ts';
import {
  groupFields,
  plainFields,
  specDefaults,
  variantFields,
  variantTags,
} from '../../../run/spec/spec-table.ts';
import { checked, repeatable } from '../../../terminal/flags.ts';

interface SpecFlag {
  /** `committee.size` */
  readonly path: readonly string[];
  readonly option: Option;
}

type Reader = Pick<Field<unknown>, 'flag' | 'help' | 'read'>;

/** Given once for each key. */
const REPEATABLE = ['founders', 'places', 'admission.keys', 'admission.anchors', 'rerun.relays'];

const HEADING = 'Rules of the run (docs/run-spec.md):';

/** Adds one flag per field; a field of several variants has one. */
export function addSpecFlags(command: Command): Command {
  for (const { option } of createFlags()) command.addOption(option.helpGroup(HEADING));
  return command;
}

/** The fields typed as flags, as a document; which variant they mean is added where only one has them. */
export function documentFromFlags(command: Command): Untyped {
  const document: Record<string, unknown> = {};
  for (const { path, option } of createFlags()) {
    const attribute = option.attributeName();
    if (command.getOptionValueSource(attribute) !== 'cli') continue;
    const value: unknown = command.getOptionValue(attribute);
    const [first, second] = path;
    const before = document[first!];
    document[first!] =
      second === undefined
        ? value
        : { ...impliedTag(path), ...(isObject(before) ? before : {}), [second]: value };
  }
  return document;
}

function createFlags(): readonly SpecFlag[] {
  const flags = new Map<string, SpecFlag & { readonly readers: Reader[] }>();
  const add = (path: readonly string[], field: Reader) => {
    const name = path.join('.');
    const before = flags.get(name);
    before?.readers.push(field);
    if (before !== undefined) return;
    const readers = [field];
    const { flag } = field;
    const help = `${field.help}${defaultWords(path)}`;
    const option = REPEATABLE.includes(name)
      ? repeatable(flag, help)
      : checked(flag, help, readers);
    flags.set(name, { path, option, readers });
  };
  for (const [name, field] of Object.entries(plainFields)) add([name], field);
  for (const [group, fields] of Object.entries(groupFields)) {
    for (const [name, field] of Object.entries(fields)) add([group, name], field);
  }
  for (const [group, variants] of Object.entries<Readonly<Record<string, Group>>>(variantFields)) {
    const tag = variantTags[group as keyof typeof variantTags];
    add([group, tag], choice(`--${group}-${tag} <name>`, MEANINGS[group]!, Object.keys(variants)));
    for (const fields of Object.values(variants)) {
      for (const [name, field] of Object.entries(fields)) add([group, name], field);
    }
  }
  return [...flags.values()];
}

/** What a field is where nobody says it. */
function defaultWords([first = '', second]: readonly string[]): string {
  const group: unknown = (specDefaults as Untyped)[first];
  const value = second === undefined ? group : isObject(group) ? group[second] : undefined;
  return typeof value === 'number' || typeof value === 'string' ? ` (default: ${value})` : '';
}

/** What the choice of a variant decides. */
const MEANINGS: Readonly<Record<string, string>> = {
  data: 'what is trained on: one text, each its own, or made-up examples',
  stake: 'where stakes come from',
  beacon: 'public randomness that enters each draw',
  admission: 'keys that may join',
};

function impliedTag([group = '', name = '']: readonly string[]): Untyped {
  if (!Object.hasOwn(variantFields, group)) return {};
  const variant = group as keyof typeof variantFields;
  const variants = Object.entries<Group>(variantFields[variant]);
  const having = variants.filter(([, fields]) => Object.hasOwn(fields, name));
  return having.length === 1 ? { [variantTags[variant]]: having[0]![0] } : {};
}
