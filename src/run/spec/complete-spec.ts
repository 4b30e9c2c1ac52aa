/** What surrounds a spec: the document with its defaults filled in before, and the settings of one worker that keep to it after. */

import type { Group } from '../field.ts';
import { inputSettings } from '../input.ts';
import {
  completeSettings,
  namesIn,
  type PartialSettings,
  type SettingName,
  type Settings,
  writeSettings,
} from '../settings.ts';
import { type Feature, features, ownedSpecFields } from './features.ts';
import { presets } from './presets.ts';
import { FORMAT_VERSION } from './read-spec.ts';
import { type RunSpec, runIdOf } from './run-spec.ts';
import { isObject, type Untyped } from './spec-readers.ts';
import { defaultsOf, specDefaults, variantFields, variantTags } from './spec-table.ts';

type VariantName = keyof typeof variantTags;

/** The document over what follows from its model, data and author, over the defaults. Nothing is judged yet. */
export function completeDocument(document: Untyped, derived: Untyped): Untyped {
  const base = mergeObjects({ version: FORMAT_VERSION, features: [], ...specDefaults }, derived);
  const merged = mergeObjects(base, document);
  const complete: Record<string, unknown> = { ...merged };
  for (const [name, { tag }] of Object.entries(variantTags)) {
    const object = merged[name];
    if (!isObject(object)) continue;
    const variants: Readonly<Record<string, Group>> = variantFields[name as VariantName];
    complete[name] = { ...defaultsOf(variants[String(object[tag])] ?? {}), ...object };
  }
  return nameFeatures(complete);
}

/** Names the features whose fields say anything, and leaves out fields that say what their absence means. */
function nameFeatures(complete: Untyped): Untyped {
  if (!Array.isArray(complete.features)) return complete;
  const names = new Set<unknown>(complete.features);
  const document: Record<string, unknown> = { ...complete };
  for (const { name, feature, field } of ownedSpecFields(features)) {
    const isSilent = JSON.stringify(document[name]) === JSON.stringify(field.absent);
    if (!isSilent && document[name] !== undefined) names.add(feature);
    if (isSilent && !names.has(feature)) delete document[name];
  }
  for (const [name, { isIn }] of Object.entries<Feature>(features)) {
    if (isIn?.(complete)) names.add(name);
  }
  return { ...document, features: [...names].sort() };
}

/** Objects are merged member by member, one level deep, unless they are of different variants; `over` wins. */
function mergeObjects(under: Untyped, over: Untyped): Untyped {
  const merged: Record<string, unknown> = { ...under };
  for (const [name, value] of Object.entries(over)) {
    if (value === undefined) continue;
    const before = merged[name];
    const isMerged = isObject(before) && isObject(value) && isSameVariant(name, before, value);
    merged[name] = isMerged ? { ...before, ...value } : value;
  }
  return merged;
}

function isSameVariant(name: string, before: Untyped, value: Untyped): boolean {
  if (!Object.hasOwn(variantFields, name)) return true;
  const { tag } = variantTags[name as VariantName];
  return value[tag] === undefined || value[tag] === before[tag];
}

/** What a worker who asks for this much plays by; what the spec says wins. */
export function settingsOf(spec: RunSpec, asked: PartialSettings): Settings {
  const { training, profile, timing, start, input, tiers, pace } = spec;
  return completeSettings(
    presets[training.model],
    { roundTimeout: timing.graceMaxMs / 1000 },
    asked,
    training,
    start?.adapter ?? {},
    inputSettings(input),
    pace,
    { run: runIdOf(spec), profile, tiers },
  );
}

/** A setting that was asked for and that the spec says otherwise. */
export interface Contradiction {
  readonly name: SettingName;
  /** As people write them. */
  readonly asked: string;
  readonly spec: string;
}

/** Everything asked for that is not what the spec says. */
export function contradictions(spec: RunSpec, asked: PartialSettings): readonly Contradiction[] {
  const said = writeSettings({
    ...spec.training,
    ...spec.start?.adapter,
    ...inputSettings(spec.input),
    run: runIdOf(spec),
    profile: spec.profile,
  });
  const wanted = writeSettings(asked);
  return [...namesIn('training', 'adapter', 'input'), ...namesIn('name')].flatMap((name) => {
    const [a, b] = [JSON.stringify(wanted[name]), JSON.stringify(said[name])];
    return a === undefined || a === b ? [] : [{ name, asked: a, spec: b ?? 'nothing' }];
  });
}
