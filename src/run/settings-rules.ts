/** Combinations of settings that are refused in a run without a spec, because its workers could not agree. */
import { ConfigError } from '../base/errors.ts';
import { ruleForms } from './aggregation.ts';
import { areDisjoint, groupsOf } from './groups.ts';
import { aggregationOf, type SettingName, type Settings, spell } from './settings.ts';
import { rowRules, rule, type SpecRule } from './spec/aggregation-rules.ts';

interface Exclusion {
  readonly code: string;
  readonly hint: string | ((settings: Settings) => string);
  readonly says: string | ((settings: Settings) => string);
  isBroken(settings: Settings): boolean;
}

const EVERYTHING =
  'let every worker send everything: --set owners=0 --set fragments=1 --set packing=int8';
const isReference = ({ profile }: Settings): boolean => profile === 'nostrain/0';
const isAsync = ({ sync }: Settings): boolean => sync.strategy === 'async';

/** In the order in which they are checked. */
const exclusions: readonly Exclusion[] = [
  {
    code: 'flag/tier',
    says: ({ tier, tiers }) => `there is no tier ${tier} in a run of --tiers ${tiers}`,
    hint: ({ tiers }) => `the tiers are 0, the full model, to ${tiers}`,
    isBroken: ({ tier, tiers }) => tiers > 0 && tier !== 'auto' && Number(tier) > tiers,
  },
  {
    code: 'flag/tiers',
    says: (settings) =>
      isReference(settings)
        ? '--tiers does not go with the wire of nostrain/0'
        : '--tiers does not go with owners and fragments, which cut the model otherwise',
    hint: 'give --set profile=nostrain/1 --set owners=0 --set fragments=1, or --tiers 0',
    isBroken: (settings) => {
      const { tiers, owners, fragments } = settings;
      return tiers > 0 && (isReference(settings) || owners > 0 || fragments > 1);
    },
  },
  {
    code: 'flag/groups',
    says: 'only a run with a spec knows which worker is in which group of experts',
    hint: 'create one with `nostrain run create`, or leave groups out',
    isBroken: ({ groups, validators }) => groups.length > 0 && validators.length === 0,
  },
  {
    code: 'flag/group',
    says: 'a run with validators trains one group, whose name is missing or unknown',
    hint: 'name one of the groups with --set group=NAME; the experts must be in one group each',
    isBroken: (settings) =>
      settings.validators.length > 0 &&
      settings.groups.length > 0 &&
      !(areDisjoint(settings) && groupsOf(settings).some(({ name }) => name === settings.group)),
  },
  {
    code: 'flag/validators',
    says: 'validators need the time at which the run begins, and whole contributions',
    hint: 'give --set mergeStart=UNIXTIME --set owners=0 --set fragments=1 --tiers 0',
    isBroken: ({ validators, mergeStart, owners, fragments, tiers }) =>
      validators.length > 0 && (mergeStart === 0 || owners > 0 || fragments > 1 || tiers > 0),
  },
  {
    code: 'flag/experts',
    says: 'a model with tiers cannot have experts',
    hint: 'give --set experts=0, or --tiers 0',
    isBroken: ({ experts, tiers }) => experts > 0 && tiers > 0,
  },
  {
    code: 'flag/fragments',
    says: 'nostrain/0 sends the full model, never a fragment',
    hint: 'give --set profile=nostrain/1, or --set fragments=1',
    isBroken: (settings) => isReference(settings) && settings.fragments > 1,
  },
  {
    code: 'flag/residual',
    says: 'what a trellis code does not carry is noise, which error feedback would let grow',
    hint: 'give --set residual=none, or --set packing=int8',
    isBroken: (settings) =>
      !isReference(settings) && settings.packing === 'trellis' && settings.residual === 'feedback',
  },
  {
    code: 'flag/owners',
    says: 'async workers are in different rounds, so they cannot be assigned parts of the model',
    hint: EVERYTHING,
    isBroken: (settings) => isAsync(settings) && (settings.owners > 0 || settings.fragments > 1),
  },
  {
    code: 'flag/owners',
    says:
      'each worker sends only its part of the model, so all workers must be known: use ' +
      '--sync strict:3 to wait for them',
    hint: `--sync strict:N, or --set waitFor=N; or ${EVERYTHING}`,
    isBroken: ({ owners, sync, waitFor }) =>
      owners > 0 && sync.strategy !== 'strict' && waitFor < 2,
  },
];

/** Throws if workers could not agree on the parts they send, or a rule cannot work with what they send. */
export function assertAgreeable(settings: Settings): void {
  assertRule(settings);
  const broken = exclusions.find(({ isBroken }) => isBroken(settings));
  if (broken === undefined) return;
  const { code, says, hint } = broken;
  const word = (each: typeof says) => (typeof each === 'string' ? each : each(settings));
  throw new ConfigError(code, word(says), { hint: word(hint) });
}

/** Conditions for an aggregation rule other than a mean: it compares contributions of one round of nostrain/1. */
const comparable: readonly SpecRule<Settings>[] = [
  rule(
    'profile',
    'it is nostrain/1 with a rule: the Python reference takes means',
    (settings) => !isReference(settings),
  ),
  rule(
    'sync',
    'it is timeout, strict:N or quorum with a rule: under async each worker folds rows of ' +
      'other rounds, and hostile counts those of one',
    (settings) => !isAsync(settings),
    'take --sync strict:N',
  ),
  rule(
    'tiers',
    'it is 0 with a rule: rows of different tiers cannot be compared',
    ({ tiers }) => tiers === 0,
  ),
];

/** Checks the aggregation rule like a spec does. */
function assertRule(settings: Settings): void {
  const rows = { aggregation: aggregationOf(settings), training: settings };
  const isCompared = ruleForms[settings.rule] !== 'mean' || settings.leastRatePermille < 1000;
  const broken =
    (isCompared ? comparable.find(({ holds }) => !holds(settings)) : undefined) ??
    rowRules.find(({ holds }) => !holds(rows));
  if (broken === undefined) return;
  const at = broken.at.replace(/^.*\./, '') as SettingName;
  throw new ConfigError(
    'settings/rule',
    `${spell(at)} does not go with this rule: it must be that ${broken.says}`,
    { hint: broken.nearest ?? 'leave it out, or take --set rule=clipped-mean', data: { at } },
  );
}
