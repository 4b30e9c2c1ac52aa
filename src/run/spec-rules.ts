/** What must hold between the fields of a run spec, each with its path and what would be accepted there. */
import { ConfigError } from '../base/errors.ts';
import type { RunSpec } from './run-spec.ts';

interface Rule {
  readonly at: string;
  /** What must be the case, in words that follow "it must be that". */
  readonly says: string;
  holds(spec: RunSpec): boolean;
}

const isText = ({ training }: RunSpec): boolean =>
  training.model === 'gpt' || training.model === 'char-gpt';

/** What `limits.weightCap` is when nobody says: the examples of a round, or fewer. */
export const weightCapOf = ({
  maxExamples,
  innerSteps,
  batchSize,
}: Pick<RunSpec['training'], 'maxExamples' | 'innerSteps' | 'batchSize'>): number =>
  maxExamples || innerSteps * batchSize;

/** Anybody may publish a spec: whoever looks at one must be able to lay its model out. */
const MOST = { width: 65_536, layers: 1024, heads: 1024, context: 65_536, ffn: 262_144 } as const;
const MOST_HIDDEN = 16;

const bounds: readonly Rule[] = Object.entries(MOST).map(([name, most]) => ({
  at: `training.${name}`,
  says: `it is at most ${most}`,
  holds: ({ training }) => training[name as keyof typeof MOST] <= most,
}));

/** All rules, in the order in which they are judged. */
export const specRules: readonly Rule[] = [
  ...bounds,
  {
    at: 'training.hidden',
    says: `it is at most ${MOST_HIDDEN} sizes of at most ${MOST.width}`,
    holds: ({ training: { hidden } }) =>
      hidden.length <= MOST_HIDDEN && hidden.every((size) => size <= MOST.width),
  },
  {
    at: 'training.width',
    says: 'it is a multiple of training.heads for a text model',
    holds: (spec) => !isText(spec) || spec.training.width % spec.training.heads === 0,
  },
  {
    at: 'founders',
    says: 'the author is one of them',
    holds: ({ founders, author }) => founders.includes(author),
  },
  {
    at: 'data.kind',
    says: 'it is corpus or own for a text model, and made for linear and mlp',
    holds: (spec) => isText(spec) === (spec.data.kind !== 'made'),
  },
  {
    at: 'evaluation',
    says: 'it is null unless data.kind is own: every other kind has a validation part of its own',
    holds: ({ evaluation, data }) => evaluation === null || data.kind === 'own',
  },
  {
    at: 'committee.weights',
    says: 'it is equal where stake.source is none',
    holds: ({ committee, stake }) => committee.weights === 'equal' || stake.source !== 'none',
  },
  {
    at: 'committee.minStake',
    says: 'it is 0 where stake.source is none',
    holds: ({ committee, stake }) => committee.minStake === '0' || stake.source !== 'none',
  },
  {
    at: 'beacon.lagSeconds',
    says: 'it is more than twice timing.skewMs',
    holds: ({ beacon, timing }) =>
      beacon.kind === 'none' || beacon.lagSeconds * 1000 > 2 * timing.skewMs,
  },
  {
    at: 'timing.graceMinMs',
    says: 'it is at most timing.graceMaxMs',
    holds: ({ timing }) => timing.graceMinMs <= timing.graceMaxMs,
  },
  {
    at: 'absentRounds',
    says: 'it is at least liveRounds',
    holds: ({ absentRounds, liveRounds }) => absentRounds >= liveRounds,
  },
  {
    at: 'late',
    says: 'it is discard where training.owners is above 0 or training.fragments above 1: what comes late then moves parameters that nobody else sends',
    holds: ({ late, training: { owners, fragments } }) =>
      late === 'discard' || (owners === 0 && fragments === 1),
  },
  {
    at: 'limits.weightCap',
    says: 'it is training.maxExamples, or where that is 0 training.innerSteps x training.batchSize',
    holds: ({ limits, training }) => limits.weightCap === weightCapOf(training),
  },
];

/** Throws a `ConfigError` that names the first rule broken. */
export function assertConsistent(spec: RunSpec): void {
  const broken = specRules.find(({ holds }) => !holds(spec));
  if (broken === undefined) return;
  const { at, says } = broken;
  throw new ConfigError(
    'spec/inconsistent',
    `${at} is ${valueAt(spec, at)}: it must be that ${says}`,
    { data: { at } },
  );
}

function valueAt(spec: RunSpec, path: string): string {
  const value = path
    .split('.')
    .reduce<unknown>((at, name) => (at as Readonly<Record<string, unknown>>)[name], spec);
  const text = JSON.stringify(value) ?? 'absent';
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
