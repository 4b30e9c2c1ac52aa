/**
 * What must hold between a run's tier, its aggregation rule and the rest of its spec. A combination that cannot work is refused before
 * anything is published, with the reason and the nearest thing that does.
 */
import { ConfigError } from '../../base/errors.ts';
import { leastRows, type RuleName, ruleForms } from '../aggregation.ts';
import { aggregationOf, fields, type SettingName, type Settings } from '../settings.ts';
import type { RunSpec } from './run-spec.ts';

/** A rule between fields of a spec. */
export interface SpecRule {
  readonly at: string;
  /** What must be the case, in words that follow "it must be that". */
  readonly says: string;
  /** The nearest thing that works. */
  readonly nearest?: string;
  holds(spec: RunSpec): boolean;
}

type Tier = RunSpec['tier'];

/** The least tier that admits each rule. One person may have any number of keys in an open run: there no number of rows is hostile at most. */
export const ruleTiers: Readonly<Record<RuleName, Tier>> = {
  'clipped-mean': 'open',
  mean: 'open',
  'trimmed-mean': 'verified',
  'coordinate-median': 'verified',
  krum: 'verified',
  'multi-krum': 'verified',
  'geometric-median': 'verified',
  'centered-clip': 'verified',
};

/** Throws where the tier does not admit the rule, admits nobody, or is only claimed. */
export function assertTier({ tier, aggregation: { rule }, admission }: RunSpec): void {
  const required = ruleTiers[rule];
  if (tier === 'open' && required !== 'open') {
    throw new ConfigError(
      'spec/AggregationRuleTierMismatch',
      `the rule ${rule} counts on most rows being honest, which nothing vouches for in an open run: it is for runs of tier ${required}`,
      {
        hint: 'say who may join and --tier verified (--invite KEY, --trust-key KEY, --join-work BITS or --join-stake N), or take --rule clipped-mean',
        data: { at: 'aggregation.rule', rule, required, actual: tier },
      },
    );
  }
  if (tier === 'confidential') {
    throw new ConfigError(
      'spec/TierRefusesEverybody',
      'a confidential run admits machines by attestation, which this program cannot check yet: it admits nobody',
      {
        hint: 'take --tier verified, which admits keys',
        data: { at: 'tier', tier, missing: 'attestation' },
      },
    );
  }
  if (tier === 'verified' && admission.kind === 'open') {
    throw new ConfigError(
      'spec/TierWithoutAdmission',
      'a verified run says who may join, and this one admits everybody',
      {
        hint: 'add --invite KEY for each, --trust-key KEY, --join-work BITS or --join-stake N; or leave --tier out',
        data: { at: 'admission.kind', tier, admission: admission.kind },
      },
    );
  }
}

/** What the rows of a run are like. */
export interface Rows extends Pick<RunSpec, 'aggregation'> {
  readonly training: Pick<RunSpec['training'], 'owners' | 'packing' | 'normalize'>;
}

const formOf = ({ aggregation }: Rows) => ruleForms[aggregation.rule];
const isMean = (spec: Rows): boolean => formOf(spec) === 'mean';
const isKrum = ({ aggregation: { rule } }: Rows): boolean => rule.endsWith('krum');
const isOneOf = <T>(value: T, ...list: readonly T[]): boolean => list.includes(value);

/** What a rule and the rows that workers send must have of each other, in runs with a spec and without. */
const betweenRows: readonly (Omit<SpecRule, 'holds'> & { holds(run: Rows): boolean })[] = [
  {
    at: 'aggregation.hostile',
    says: 'it is 0 for mean and clipped-mean, which withstand no hostile row, and above 0 for other rules',
    holds: (spec) => isMean(spec) === (spec.aggregation.hostile === 0),
  },
  {
    at: 'aggregation.before',
    says: 'it is nothing for mean and clipped-mean: a mean of means is a mean',
    nearest: 'take --before nothing, or --rule geometric-median',
    holds: (spec) => !isMean(spec) || spec.aggregation.before === 'nothing',
  },
  {
    at: 'training.owners',
    says: 'it is 0 where a rule compares whole rows (krum, multi-krum, geometric-median, centered-clip, nnm, bucketing): rows of different chunks cannot be compared',
    nearest: 'take --owners 0, so that everybody sends everything, or --rule clipped-mean',
    holds: (spec) => {
      const isWhole = formOf(spec) === 'rows' || spec.aggregation.before !== 'nothing';
      return !isWhole || spec.training.owners === 0;
    },
  },
  {
    at: 'training.owners',
    says: 'it is 0, or at least 2 x aggregation.hostile + 1 for trimmed-mean and coordinate-median: of fewer owners of a chunk the hostile ones may be most',
    nearest: 'take more --owners, or --owners 0, so that everybody sends everything',
    holds: (spec) => {
      const { owners } = spec.training;
      return formOf(spec) !== 'values' || owners === 0 || owners >= leastRows(spec.aggregation);
    },
  },
  {
    at: 'training.packing',
    says: 'it is int8 or int4 for trimmed-mean and coordinate-median: of values that are mostly sent as zero the middle one is zero',
    nearest: 'take --packing int4, or --rule geometric-median, which looks at whole rows',
    holds: (spec) => formOf(spec) !== 'values' || isOneOf(spec.training.packing, 'int8', 'int4'),
  },
  {
    at: 'training.packing',
    says: 'it is int8, int4, q2 or ternary for krum and multi-krum: rows of different values (top-k, and what auto may choose) are all equally far apart',
    nearest: 'take --packing int4, or --rule geometric-median, which top-k does not hurt so',
    holds: (spec) =>
      !isKrum(spec) || isOneOf(spec.training.packing, 'int8', 'int4', 'q2', 'ternary'),
  },
  {
    at: 'training.normalize',
    says: 'it is workers where the rule is no mean',
    holds: (spec) => isMean(spec) || spec.training.normalize === 'workers',
  },
];

/** Newcomers of one outcome where each shows events. */
const MOST_TRUSTED = 32;

/** In the order in which they are judged. */
export const aggregationRules: readonly SpecRule[] = [
  {
    at: 'features',
    says: 'admission is named exactly where admission.kind is work or stake',
    nearest: 'leave features out: `nostrain run create` names them',
    holds: ({ features, admission }) =>
      features.includes('admission') === isOneOf(admission.kind, 'work', 'stake'),
  },
  {
    at: 'features',
    says: 'trust is named exactly where admission.kind is trust',
    nearest: 'leave features out: `nostrain run create` names them',
    holds: ({ features, admission }) => features.includes('trust') === (admission.kind === 'trust'),
  },
  {
    at: 'admission.hops',
    says: 'it is 1 for assertions, and admission.rank is 0 for follows: each is asked one thing',
    nearest:
      'take --trust-by follows with --trust-hops, or --trust-by assertions with --trust-rank',
    holds: ({ admission }) =>
      admission.kind !== 'trust' ||
      (admission.by === 'follows' ? admission.rank === 0 : admission.hops === 1),
  },
  {
    at: 'joinsPerRound',
    says: `it is from 1 to ${MOST_TRUSTED} where admission.kind is trust: outcomes hold what each join shows`,
    nearest: 'take --joins-per-round 4',
    holds: ({ admission, joinsPerRound }) =>
      admission.kind !== 'trust' || (joinsPerRound > 0 && joinsPerRound <= MOST_TRUSTED),
  },
  {
    at: 'admission.kind',
    says: 'it is not stake where stake.source is none',
    nearest: 'name a table with --stake FILE, or ask for work: --join-work BITS',
    holds: ({ admission, stake }) => admission.kind !== 'stake' || stake.source !== 'none',
  },
  ...betweenRows,
  {
    at: 'late',
    says: 'it is discard where the rule is no mean: with late rows one worker has two, and aggregation.hostile counts workers',
    nearest: 'take --late discard, or --rule clipped-mean',
    holds: (spec) => isMean(spec) || spec.late === 'discard',
  },
  {
    at: 'committee.weights',
    says: 'it is equal where the rule is no mean: such rules count rows, not stake',
    nearest:
      'take --committee-weights equal with --join-stake N, or --rule clipped-mean, which weighs rows by stake',
    holds: (spec) => isMean(spec) || spec.committee.weights === 'equal',
  },
];

/** Throws where the rule of a run without a spec cannot work with what its workers send, for the reason that a spec is refused for. */
export function assertRule(settings: Settings): void {
  const aggregation = aggregationOf(settings);
  if (ruleForms[settings.rule] !== 'mean' || settings.leastRatePermille < 1000)
    assertNative(settings);
  const broken = betweenRows.find(({ holds }) => !holds({ aggregation, training: settings }));
  if (broken) refuse(broken.at.split('.')[1] as SettingName, broken.says, broken.nearest);
}

/** Of what plain runs have beside certified ones. */
function assertNative({ sync, tiers, profile }: Settings): void {
  if (profile !== 'nostrain/1') {
    refuse('profile', 'it is nostrain/1 with a rule: the Python reference takes means', undefined);
  }
  if (sync.strategy === 'async') {
    refuse(
      'sync',
      'it is timeout, strict:N or quorum with a rule: under async each worker folds rows of other rounds, and --hostile counts those of one',
      'take --sync strict:N',
    );
  }
  if (tiers > 0) {
    refuse('tiers', 'it is 0 with a rule: rows of different tiers cannot be compared', undefined);
  }
}

function refuse(name: SettingName, says: string, nearest: string | undefined): never {
  const flag = fields[name].flag.split(' ')[0]!;
  throw new ConfigError(
    'settings/rule',
    `${flag} does not go with this --rule: it must be that ${says}`,
    {
      hint:
        nearest ??
        (name === 'hostile'
          ? 'say how many: --hostile N'
          : 'leave it out, or take --rule clipped-mean'),
      data: { at: name },
    },
  );
}
