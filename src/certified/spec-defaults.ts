/** Defaults of a new run spec that depend on its other fields, and which of them differ from the usual ones. */

import { isObject, type Untyped } from '../base/shape.ts';
import { ruleForms, ruleNames, usualAggregation, verifiedAggregation } from '../run/aggregation.ts';
import { readKey } from '../run/field.ts';
import {
  adapterNames,
  fixedLocalSteps,
  inputNames,
  type PartialSettings,
  readSettings,
  type Settings,
  sharedNames,
} from '../run/settings.ts';
import { type Adaptation, adaptationsOf, type Cause } from '../run/spec/adaptation.ts';
import {
  adaptedSettings,
  combineSettings,
  comparable,
  presets,
  requestedModel,
} from '../run/spec/presets.ts';

/** Rank that an invitation asserts (NIP-85), so that other assertions of a founder admit no key. */
const INVITED_RANK = 100;
/** Founders called for the first outcome if a run has more than this; above the number of seats. */
const CALLED_FOUNDERS = 84;
/**
 * Newcomers per round in a run with more founders, or with invitations: an event fits about a hundred joins of 504
 * bytes, or half as many with an invitation, in addition to contributions and votes.
 */
const CROWD_JOINS = 16;
/** Default newcomers per round if joins carry trust proofs, which are large. */
const TRUSTED_JOINS = 4;
/** Minimum named keys before a verified run tolerates hostile ones by default: with fewer, one absence may stop it. */
const LEAST_NAMED = 5;

export interface SpecDefaults {
  readonly training: Settings;
  /** Fields of the spec, for those that the document does not set. */
  readonly fields: Untyped;
  readonly adaptations: readonly Adaptation[];
}

/** Returns settings and default fields for a document with these founders; typed settings override those it has. */
export function specDefaults(
  document: Untyped,
  founders: unknown,
  typed: PartialSettings,
): SpecDefaults {
  const aggregation = aggregationOf(document, namedIn(founders, document));
  const crowd = crowdOf(document, founders);
  const { training, adaptations } = trainingOf(document, typed, aggregation.values);
  return {
    training,
    fields: { aggregation: aggregation.values, ...crowd.values },
    adaptations: [...adaptations, ...aggregation.adaptations, ...crowd.adaptations],
  };
}

/** Default fields, and which of them are unusual. */
interface Defaults {
  readonly values: Untyped;
  readonly adaptations: readonly Adaptation[];
}

/**
 * Returns the default aggregation. A verified run that sets `hostile` above 0, or names at least five keys, uses the
 * rule with the lowest loss in the attack lab; all others use the mean within the norm bound. If the spec does not set
 * f, assume a quarter of the named keys, and at least one.
 */
function aggregationOf(document: Untyped, named: number): Defaults {
  const typed = membersOf(document.aggregation);
  const { rule, before, hostile } = typed;
  const { weights = 'equal' } = membersOf(document.committee);
  const quarter = Math.max(1, Math.floor(named / 4));
  const defaults = (because: string, why: string, values: Untyped): Defaults => ({
    values,
    adaptations: adaptationsOf(
      { because, why },
      { usual: { ...usualAggregation }, typed, result: values },
    ),
  });
  if (rule === undefined && document.tier === 'verified' && weights === 'equal') {
    const withstands = hostile === undefined ? named >= LEAST_NAMED : hostile !== 0;
    if (withstands || before !== undefined) {
      const why = 'in a verified run the rule withstands a quarter of the named keys';
      const values = { ...verifiedAggregation, hostile: quarter };
      return defaults(`tier verified, ${named} named keys`, why, values);
    }
  }
  const known = rule ?? usualAggregation.rule;
  const isMean = ruleNames.some((name) => name === known && ruleForms[name] === 'mean');
  const why = 'the rule withstands a quarter of the named keys';
  return defaults(`aggregation.rule ${known}`, why, { hostile: isMean ? 0 : quarter });
}

/** Returns the default numbers of founders and newcomers per round, so that outcomes fit into one event. */
function crowdOf(document: Untyped, founders: unknown): Defaults {
  const isTrusting = membersOf(document.admission).kind === 'trust';
  const isCrowd = Array.isArray(founders) && founders.length > CALLED_FOUNDERS;
  if (!isTrusting && !isCrowd) return { values: {}, adaptations: [] };
  const values = {
    ...(isCrowd && { foundersPerRound: CALLED_FOUNDERS, joinsPerRound: CROWD_JOINS }),
    ...(isTrusting && { joinsPerRound: TRUSTED_JOINS }),
  };
  const causes = [
    ...(isCrowd ? [`${founders.length} founders`] : []),
    ...(isTrusting ? ['admission.kind trust'] : []),
  ];
  const cause = { because: causes.join(', '), why: 'an outcome must fit into one event' };
  const usual = { foundersPerRound: 0, joinsPerRound: 0 };
  return { values, adaptations: adaptationsOf(cause, { usual, typed: document, result: values }) };
}

/** Returns the defaults that keep strangers from deciding; none in a run with stakes, in which stake decides. */
export function guardsOf({ admission, stake }: Untyped, founders: unknown): Untyped {
  if ((membersOf(stake).source ?? 'none') !== 'none') return {};
  if (admission === undefined) {
    return {
      admission: { kind: 'trust', anchors: founders, by: 'assertions', rank: INVITED_RANK },
      joinsPerRound: CROWD_JOINS,
    };
  }
  const { kind = 'open' } = membersOf(admission);
  return kind === 'open' || kind === 'work' ? { foundersDecide: true } : {};
}

/** Returns the number of keys that the document names as founders or admits. */
function namedIn(founders: unknown, { admission }: Untyped): number {
  const { keys } = membersOf(admission);
  const all = [founders, keys].flatMap((list: unknown) => (Array.isArray(list) ? list : []));
  return new Set(all.map(keyOf)).size;
}

/** Combines preset, document and flags, in this order. Leaves unknown names for the spec reader to refuse. */
function trainingOf(
  document: Untyped,
  typed: PartialSettings,
  aggregation: Untyped,
): Pick<SpecDefaults, 'training' | 'adaptations'> {
  const known = Object.entries(membersOf(document.training)).filter(([name]) => isShared(name));
  const { adapter } = membersOf(document.start);
  const ofBase = Object.entries(membersOf(adapter)).filter(([name]) => isOfAdapter(name));
  const ofInput = Object.entries(membersOf(document.input)).filter(([name]) => isOfInput(name));
  const requested = {
    ...readSettings(Object.fromEntries(known), 'training'),
    ...readSettings(Object.fromEntries(ofBase), 'start.adapter'),
    ...readSettings(Object.fromEntries(ofInput), 'input'),
    ...typed,
    // these are separate fields of a spec
    ...usualAggregation,
    ...fixedLocalSteps,
    ...(typeof document.tiers === 'number' && { tiers: document.tiers }),
  };
  const model = requestedModel(requested) ?? (isObject(document.start) ? 'pretrained' : 'char-gpt');
  const preset = presets[model];
  const { experts = membersOf(document.mixture).experts } = requested;
  const needs = needsOf({ ...document, experts }, preset, aggregation);
  const training = combineSettings(preset, {
    run: 'run',
    relay: [],
    ...needs?.settings,
    ...requested,
    model,
  });
  const adaptations = needs
    ? adaptationsOf(needs, { usual: preset, typed: requested, result: training })
    : adaptedSettings(preset, requested);
  return { training, adaptations };
}

/** Settings that other fields of a spec need. */
interface Needs extends Cause {
  readonly settings: PartialSettings;
}

/** Event bytes of a contribution in a run with experts, whose groups send the shared tensors too. */
const HALF_EVENT = 32_768;

/** Returns the settings that experts, a default rule, screening and scores need; undefined if the preset fits. */
function needsOf(document: Untyped, preset: PartialSettings, { rule }: Untyped): Needs | undefined {
  if (preset.packing !== 'trellis') return undefined;
  if (rule !== undefined) {
    const why = 'the rule compares whole deltas, value by value';
    return { settings: comparable, because: `aggregation.rule ${String(rule)}`, why };
  }
  const names = ['screening', 'scores'].filter((name) => document[name] === true);
  if (names.length > 0) {
    const why =
      'they measure contributions one by one, and a single one in few bits is mostly noise';
    return { settings: comparable, because: names.join(', '), why };
  }
  const { experts = 0 } = document;
  if (experts === 0) return undefined;
  const why = 'all of a group send the same chunks, in half the bytes of a dense model';
  const settings = { owners: 0, fragments: 1, eventBudget: HALF_EVENT };
  return { settings, because: `experts ${String(experts)}`, why };
}

/** Converts a key to hex; leaves anything else for the spec reader to refuse. */
export const keyOf = (value: unknown): unknown => readKey(value) ?? value;

const isOfAdapter = (name: string): boolean => adapterNames.some((each) => each === name);

const isOfInput = (name: string): boolean => inputNames.some((each) => each === name);

export const isShared = (name: string): boolean => sharedNames.some((each) => each === name);

export const membersOf = (value: unknown): Untyped => (isObject(value) ? value : {});
