/**
 * What must hold between a run's tier, its aggregation rule, the rows that workers send, and MatFormer tiers of the width.
 * A combination that cannot work is refused before anything is published, with the reason and the nearest thing that works.
 */
import { ConfigError } from '../../base/errors.ts';
import { leastRows, type RuleName, ruleForms } from '../aggregation.ts';
import { formOf } from '../data-forms.ts';
import type { RunSpec } from './run-spec.ts';
import type { Start } from './start.ts';

/** A rule between fields of a spec. */
export interface SpecRule<S = RunSpec> {
  readonly at: string;
  /** What must be the case, in words that follow "it must be that". */
  readonly says: string;
  /** The nearest thing that works. */
  readonly nearest?: string;
  holds(spec: S): boolean;
}

export const rule = <S = RunSpec>(
  at: string,
  says: string,
  holds: (spec: S) => boolean,
  nearest?: string,
): SpecRule<S> => ({ at, says, holds, ...(nearest !== undefined && { nearest }) });

/** The least tier that admits each rule. In an open run one person may have any number of keys, so no number of rows is hostile at most. */
export const ruleTiers: Readonly<Record<RuleName, RunSpec['tier']>> = {
  'clipped-mean': 'open',
  mean: 'open',
  'trimmed-mean': 'verified',
  'coordinate-median': 'verified',
  krum: 'verified',
  'multi-krum': 'verified',
  'geometric-median': 'verified',
  'centered-clip': 'verified',
};

const ADMISSION =
  '--invite KEY for each, --set admission.anchors=KEY, --set admission.bits=BITS or --set admission.least=N';

/** Throws where the tier does not admit the rule, admits nobody, or is only claimed. */
export function assertTier({ tier, aggregation: { rule }, admission }: RunSpec): void {
  const required = ruleTiers[rule];
  if (tier === 'open' && required !== 'open') {
    throw new ConfigError(
      'spec/AggregationRuleTierMismatch',
      `the rule ${rule} counts on most rows being honest, which nothing vouches for in an open run: it is for runs of tier ${required}`,
      {
        hint: `say who may join and --tier verified (${ADMISSION}), or take --set rule=clipped-mean`,
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
        hint: `add ${ADMISSION}; or leave --tier out`,
        data: { at: 'admission.kind', tier, admission: admission.kind },
      },
    );
  }
}

/** The parts of a run that an aggregation rule depends on. */
export interface Rows extends Pick<RunSpec, 'aggregation'> {
  readonly training: Pick<RunSpec['training'], 'owners' | 'packing' | 'normalize'>;
}

const rowsForm = ({ aggregation }: Rows) => ruleForms[aggregation.rule];
const isMean = (spec: Rows): boolean => rowsForm(spec) === 'mean';
const isKrum = ({ aggregation: { rule } }: Rows): boolean => rule.endsWith('krum');
const isOneOf = <T>(value: T, ...list: readonly T[]): boolean => list.includes(value);

/** Between a rule and the rows that workers send, in runs with a spec and without. */
export const rowRules: readonly SpecRule<Rows>[] = [
  rule(
    'aggregation.hostile',
    'it is 0 for mean and clipped-mean, which withstand no hostile row, and above 0 for other rules',
    (spec) => isMean(spec) === (spec.aggregation.hostile === 0),
    'say how many: --set hostile=N',
  ),
  rule(
    'aggregation.before',
    'it is nothing for mean and clipped-mean: a mean of means is a mean',
    (spec) => !isMean(spec) || spec.aggregation.before === 'nothing',
    'take --set before=nothing, or --set rule=geometric-median',
  ),
  rule(
    'training.owners',
    'it is 0 where a rule compares whole rows (krum, multi-krum, geometric-median, centered-clip, nnm, bucketing): rows of different chunks cannot be compared',
    (spec) => {
      const isWhole = rowsForm(spec) === 'rows' || spec.aggregation.before !== 'nothing';
      return !isWhole || spec.training.owners === 0;
    },
    'take --set owners=0, so that everybody sends everything, or --set rule=clipped-mean',
  ),
  rule(
    'training.owners',
    'it is 0, or at least 2 x aggregation.hostile + 1 for trimmed-mean and coordinate-median: of fewer owners of a chunk the hostile ones may be most',
    (spec) => {
      const { owners } = spec.training;
      return rowsForm(spec) !== 'values' || owners === 0 || owners >= leastRows(spec.aggregation);
    },
    'take more owners, or --set owners=0, so that everybody sends everything',
  ),
  rule(
    'training.packing',
    'it is int8 or int4 for trimmed-mean and coordinate-median: of values that are mostly sent as zero the middle one is zero',
    (spec) => rowsForm(spec) !== 'values' || isOneOf(spec.training.packing, 'int8', 'int4'),
    'take --set packing=int4, or --set rule=geometric-median, which looks at whole rows',
  ),
  rule(
    'training.packing',
    'it is int8, int4, q2 or ternary for krum and multi-krum: rows of different values (top-k, and what auto may choose) are all equally far apart',
    (spec) => !isKrum(spec) || isOneOf(spec.training.packing, 'int8', 'int4', 'q2', 'ternary'),
    'take --set packing=int4, or --set rule=geometric-median, which top-k does not hurt so',
  ),
  rule(
    'training.normalize',
    'it is workers where the rule is no mean',
    (spec) => isMean(spec) || spec.training.normalize === 'workers',
  ),
];

/** Newcomers of one outcome where each shows events. */
const MOST_TRUSTED = 32;
const NAMED = 'leave features out: `nostrain run create` names them';

export const aggregationRules: readonly SpecRule[] = [
  rule(
    'features',
    'admission is named exactly where admission.kind is work or stake',
    ({ features, admission }) =>
      features.includes('admission') === isOneOf(admission.kind, 'work', 'stake'),
    NAMED,
  ),
  rule(
    'features',
    'trust is named exactly where admission.kind is trust',
    ({ features, admission }) => features.includes('trust') === (admission.kind === 'trust'),
    NAMED,
  ),
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
    `it is from 1 to ${MOST_TRUSTED} where admission.kind is trust: outcomes hold what each join shows`,
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
  rule(
    'late',
    'it is discard where the rule is no mean: with late rows one worker has two, and aggregation.hostile counts workers',
    (spec) => isMean(spec) || spec.late === 'discard',
    'take --set late=discard, or --set rule=clipped-mean',
  ),
  rule(
    'committee.weights',
    'it is equal where the rule is no mean: such rules count rows, not stake',
    (spec) => isMean(spec) || spec.committee.weights === 'equal',
    'take --set committee.weights=equal with --set admission.least=N, or --set rule=clipped-mean, which weighs rows by stake',
  ),
];

/** A rule of runs whose workers train tiers of the width. */
const withTiers = (
  at: string,
  says: string,
  holds: (spec: RunSpec) => boolean,
  nearest: string,
): SpecRule => {
  const [what, why] = says.split(': ');
  return rule(
    at,
    `${what} where tiers is above 0${why === undefined ? '' : `: ${why}`}`,
    (spec) => spec.tiers === 0 || holds(spec),
    `${nearest}, or leave --tiers out`,
  );
};

/** The same of the published model that a run starts from. */
const withBase = (
  at: string,
  says: string,
  holds: (start: Start, tiers: number) => boolean,
  nearest: string,
): SpecRule =>
  withTiers(
    `start.${at}`,
    says,
    ({ start, tiers }) => start === null || holds(start, tiers),
    nearest,
  );

const UNMEASURED = 'what a small tier learned is measured by nobody yet at its own width';
const WHOLE = 'manifests of checkpoints are of whole models';

export const tierRules: readonly SpecRule[] = [
  withTiers(
    'training.model',
    'it is a transformer over text',
    ({ training }) => formOf(training) === 'tokens',
    'take --model gpt, or --base',
  ),
  withTiers(
    'training.ffn',
    'it is a multiple of 2 to the power of tiers: each tier halves it',
    ({ training, tiers, start }) => start !== null || training.ffn % 2 ** tiers === 0,
    'take fewer --tiers',
  ),
  withBase(
    'model.ffn',
    'it is a multiple of 2 to the power of tiers: each tier halves it',
    ({ model }, tiers) => model.ffn % 2 ** tiers === 0,
    'take fewer --tiers',
  ),
  withBase(
    'model.architecture',
    'it is llama: tiers are cut out of gate, up and down matrices',
    ({ model }) => model.architecture === 'llama',
    'take another --base',
  ),
  rule(
    'start.rings',
    'there is one more of them than tiers, of start.root too where that is a list, and none where tiers is 0',
    ({ start, tiers }) => {
      if (start === null) return true;
      const wanted = tiers === 0 ? 0 : tiers + 1;
      const isFor = (list: readonly unknown[]) => list.length === wanted;
      return isFor(start.rings ?? []) && (!Array.isArray(start.root) || isFor(start.root));
    },
  ),
  withTiers(
    'training.fragments',
    'it is 1: fragments cut the model across its rings',
    ({ training }) => training.fragments === 1,
    'take --set fragments=1',
  ),
  withTiers(
    'aggregation.rule',
    'it is mean or clipped-mean: other rules compare rows, and rows of different tiers are of different length',
    isMean,
    'take --set rule=clipped-mean',
  ),
  withTiers(
    'aggregation.leastRatePermille',
    'it is 1000: how far rows agree is asked of whole rows',
    ({ aggregation }) => aggregation.leastRatePermille === 1000,
    'leave leastRatePermille out',
  ),
  withTiers(
    'screening',
    `it is false: ${UNMEASURED}`,
    ({ screening }) => !screening,
    'leave --screening out',
  ),
  withTiers('scores', `it is false: ${UNMEASURED}`, ({ scores }) => !scores, 'leave --scores out'),
  withTiers(
    'rerun.permille',
    'it is 0: nobody runs the steps of another tier again yet',
    ({ rerun }) => rerun.permille === 0,
    'leave rerun.permille out',
  ),
  withTiers(
    'places',
    `there is none: ${WHOLE}`,
    ({ places }) => places.length === 0,
    'leave places out',
  ),
  withTiers(
    'placement',
    `there is none: ${WHOLE}`,
    ({ placement }) => placement === null,
    'leave it out',
  ),
];
