/**
 * Rules between fields of a run spec: their form, and those of trust tiers, admission and aggregation. A combination
 * that cannot work is refused before anything is published, with the reason and the nearest one that works.
 */
import { ConfigError } from '../../base/errors.ts';
import { leastRows, type RuleName, ruleForms, ruleNames } from '../aggregation.ts';
import type { RunSpec } from './run-spec.ts';

/** A rule between fields of a spec. */
export interface SpecRule<S = RunSpec> {
  readonly at: string;
  /** What must be the case, in words that follow "it must be that". */
  readonly says: string;
  /** The nearest combination that works. */
  readonly nearest?: string | undefined;
  holds(spec: S): boolean;
}

/** When a rule applies, in words that follow "where". */
interface Condition<S> {
  readonly words: string;
  readonly holds: (spec: S) => boolean;
}

/** One row of a table of rules: the allowed values of a field, or a condition in words and as a check. */
interface RuleRow<S> {
  readonly only?: readonly unknown[];
  readonly says?: string;
  readonly holds?: (spec: S) => boolean;
  readonly why?: string;
  readonly nearest?: string;
}

/** Creates a rule that compares several values. */
export const rule = <S = RunSpec>(
  at: string,
  says: string,
  holds: (spec: S) => boolean,
  nearest?: string,
): SpecRule<S> => ({ at, says, holds, nearest });

/** Returns the rules that apply under a condition, by the path of their field. */
export const when = <S extends object = RunSpec>(
  where: Condition<S>,
  rows: Readonly<Record<string, RuleRow<S>>>,
): readonly SpecRule<S>[] =>
  Object.entries(rows).map(([at, { only = [], says, holds, why, nearest }]) => {
    const accepted = only.map((value) => JSON.stringify(value));
    const isGood = holds ?? ((spec) => accepted.includes(JSON.stringify(valueIn(spec, at))));
    return {
      at,
      says: `${says ?? wordsOf(only)} where ${where.words}${why === undefined ? '' : `: ${why}`}`,
      nearest,
      holds: (spec) => !where.holds(spec) || isGood(spec),
    };
  });

function wordsOf(only: readonly unknown[]): string {
  if (only.every((value) => value === null || String(value) === '')) return 'there is none';
  return `it is ${only.length > 2 ? `one of ${only.join(', ')}` : only.join(' or ')}`;
}

/** Returns the value at a path such as `committee.size`. */
export const valueIn = (spec: object, path: string): unknown =>
  path
    .split('.')
    .reduce<unknown>((at, name) => (at as Readonly<Record<string, unknown>>)[name], spec);

const tests = {
  is: (value: unknown, other: unknown) => value === other,
  'is not': (value: unknown, other: unknown) => value !== other,
  'is above': (value: unknown, other: unknown) => Number(value) > Number(other),
};

/** Returns a condition on one field, such as `field('tiers', 'is above', 0)`. */
export const field = (
  path: string,
  test: keyof typeof tests,
  other: string | number,
): Condition<object> => ({
  words: `${path} ${test} ${other}`,
  holds: (spec) => tests[test](valueIn(spec, path), other),
});

export const either = (a: Condition<object>, b: Condition<object>): Condition<object> => ({
  words: `${a.words} or ${b.words}`,
  holds: (spec) => a.holds(spec) || b.holds(spec),
});

/**
 * The lowest trust tier that allows each rule. In an open run keys are free, so any number of contributions may be
 * hostile.
 */
export const ruleTrustTiers: Readonly<Record<RuleName, RunSpec['tier']>> = {
  'clipped-mean': 'open',
  mean: 'open',
  'trimmed-mean': 'verified',
  'coordinate-median': 'verified',
  krum: 'verified',
  'multi-krum': 'verified',
  'geometric-median': 'verified',
  'centered-clip': 'verified',
};

const CLIPPED = '--set rule=clipped-mean';
const ADMISSION =
  '--invite KEY for each, --set admission.anchors=KEY, ' +
  '--set admission.bits=BITS or --set admission.least=N';

/** Throws if the trust tier does not allow the rule, admits no worker, or is claimed without an admission rule. */
export function assertTrustTier({
  tier,
  aggregation: { rule },
  admission,
  sealed,
  machines,
}: RunSpec): void {
  const required = ruleTrustTiers[rule];
  if (tier === 'open' && required !== 'open') {
    throw new ConfigError(
      'spec/AggregationRuleTierMismatch',
      `the rule ${rule} relies on most contributions being honest, which an open run cannot ` +
        `guarantee: it needs tier ${required}`,
      {
        hint: `set who may join and --tier verified (${ADMISSION}), or use ${CLIPPED}`,
        data: { at: 'aggregation.rule', rule, required, actual: tier },
      },
    );
  }
  if (tier === 'confidential' && (sealed.manifest === '' || machines.vendors.length === 0)) {
    const at = sealed.manifest === '' ? 'sealed.manifest' : 'machines.vendors';
    throw new ConfigError(
      'spec/TierWithoutMachines',
      `a confidential run needs sealed data and machines that prove what they run: ${at} is empty`,
      {
        hint: 'take --sealed FOLDER and --set machines.vendors=NAME, or --tier verified',
        data: { at, tier },
      },
    );
  }
  if (tier === 'verified' && admission.kind === 'open') {
    throw new ConfigError(
      'spec/TierWithoutAdmission',
      'a verified run must set who may join, and this one admits everyone',
      {
        hint: `add ${ADMISSION}; or leave out --tier`,
        data: { at: 'admission.kind', tier, admission: admission.kind },
      },
    );
  }
}

/** The parts of a run that an aggregation rule depends on. */
export interface Rows extends Pick<RunSpec, 'aggregation'> {
  readonly training: Pick<RunSpec['training'], 'owners' | 'normalize'>;
}

const named = (form: string): readonly RuleName[] =>
  ruleNames.filter((name) => ruleForms[name] === form);
const rowsForm = ({ aggregation }: Rows) => ruleForms[aggregation.rule];
const isMean = (spec: Rows): boolean => rowsForm(spec) === 'mean';

const MEAN: Condition<Rows> = { words: 'the rule is mean or clipped-mean', holds: isMean };
const NO_MEAN: Condition<Rows> = { words: 'the rule is no mean', holds: (spec) => !isMean(spec) };
const BY_ROW: Condition<Rows> = {
  words: `a rule compares whole rows (${named('rows').join(', ')}, nnm, bucketing)`,
  holds: (spec) => rowsForm(spec) === 'rows' || spec.aggregation.before !== 'nothing',
};
const EVERYTHING = '--set owners=0, so that everybody sends everything';

/** Rules between an aggregation rule and what workers send, in runs with and without a spec. */
export const rowRules: readonly SpecRule<Rows>[] = [
  rule(
    'aggregation.hostile',
    'it is 0 for mean and clipped-mean, which withstand no hostile row, ' +
      'and above 0 for other rules',
    (spec) => isMean(spec) === (spec.aggregation.hostile === 0),
    'say how many: --set hostile=N',
  ),
  ...when(MEAN, {
    'aggregation.before': {
      only: ['nothing'],
      why: 'a mean of means is a mean',
      nearest: 'take --set before=nothing, or --set rule=geometric-median',
    },
  }),
  ...when(BY_ROW, {
    'training.owners': {
      only: [0],
      why: 'rows of different chunks cannot be compared',
      nearest: `take ${EVERYTHING}, or ${CLIPPED}`,
    },
  }),
  rule(
    'training.owners',
    `it is 0, or at least 2 x aggregation.hostile + 1 for ${named('values').join(' and ')}: ` +
      'of fewer owners of a chunk the hostile ones may be most',
    (spec) => {
      const { owners } = spec.training;
      return rowsForm(spec) !== 'values' || owners === 0 || owners >= leastRows(spec.aggregation);
    },
    `take more owners, or ${EVERYTHING}`,
  ),
  ...when(NO_MEAN, { 'training.normalize': { only: ['workers'] } }),
];

/** Maximum newcomers per outcome if each join includes events. */
const MOST_TRUSTED = 32;

/** Returns the rule that a feature is named exactly if admission is of these kinds. */
const namesFeature = (feature: 'admission' | 'trust', ...kinds: readonly string[]): SpecRule =>
  rule(
    'features',
    `${feature} is named exactly where admission.kind is ${kinds.join(' or ')}`,
    ({ features, admission }) => features.includes(feature) === kinds.includes(admission.kind),
    'leave features out: `nostrain run create` names them',
  );

export const aggregationRules: readonly SpecRule[] = [
  namesFeature('admission', 'work', 'stake'),
  namesFeature('trust', 'trust'),
  rule(
    'admission.hops',
    'it is 1 for assertions, and admission.rank is 0 for follows: each is asked one thing',
    ({ admission }) =>
      admission.kind !== 'trust' ||
      (admission.by === 'follows' ? admission.rank === 0 : admission.hops === 1),
    'take admission.by=follows with admission.hops, or admission.by=assertions with admission.rank',
  ),
  rule(
    'joinsPerRound',
    `it is from 1 to ${MOST_TRUSTED} where admission.kind is trust: ` +
      'outcomes hold what each join shows',
    ({ admission, joinsPerRound }) =>
      admission.kind !== 'trust' || (joinsPerRound > 0 && joinsPerRound <= MOST_TRUSTED),
    'take --set joinsPerRound=4',
  ),
  rule(
    'admission.kind',
    'it is not stake where stake.source is none',
    ({ admission, stake }) => admission.kind !== 'stake' || stake.source !== 'none',
    'name a table with --stake FILE, or ask for work: --set admission.bits=BITS',
  ),
  ...rowRules,
  ...when<RunSpec>(NO_MEAN, {
    late: {
      only: ['discard'],
      why: 'with late rows one worker has two, and aggregation.hostile counts workers',
      nearest: `take --set late=discard, or ${CLIPPED}`,
    },
    'committee.weights': {
      only: ['equal'],
      why: 'such rules count rows, not stake',
      nearest:
        'take --set committee.weights=equal with --set admission.least=N, ' +
        `or ${CLIPPED}, which weighs rows by stake`,
    },
  }),
];
