/** Rules of a run spec: bounds of sizes, and what must hold between its sections. */
import { ConfigError } from '../../base/errors.ts';
import { MOST_PARAMETERS } from '../../tensor/params.ts';
import { areNeeded } from '../chunked-files.ts';
import { formOf, isImported, runDataOf } from '../data-forms.ts';
import { areDisjoint } from '../groups.ts';
import {
  aggregationRules,
  assertTrustTier,
  either,
  field,
  rule,
  type SpecRule,
  valueIn,
  when,
} from './aggregation-rules.ts';
import { importedDataOf } from './imported-shape.ts';
import type { RunSpec } from './run-spec.ts';

const hasBlocks = ({ training }: RunSpec): boolean =>
  formOf(training) !== 'rows' && training.model !== 'pretrained' && !isImported(training);

/** Returns the parameters of the blocks of a transformer, without embeddings and norms. */
const blockParameters = ({ layers, width, ffn }: RunSpec['training']): number =>
  layers * width * (4 * width + 2 * ffn);

/** Returns the default of `limits.weightCap`: the examples of a round, or fewer. */
export const weightCapOf = ({
  maxExamples,
  innerSteps,
  batchSize,
}: Pick<RunSpec['training'], 'maxExamples' | 'innerSteps' | 'batchSize'>): number =>
  maxExamples || innerSteps * batchSize;

/** Returns the hash of the file from which workers get their data; undefined if they have it. */
const dataFileOf = ({ data, sealed }: RunSpec): string | undefined =>
  data.kind === 'corpus' ? data.sha256 : sealed.manifest.slice('tee://'.length) || undefined;

const dataRules: readonly SpecRule[] = [
  ...when(field('data.kind', 'is not', 'corpus'), {
    dataFrom: { only: [''] },
    notes: { only: [''] },
  }),
  rule(
    'files.each',
    'each is the text of data, the manifest of sealed, or a file of start by its name and hash',
    (spec) => spec.files === null || areNeeded(spec.files, dataFileOf(spec), spec.start?.files),
  ),
  ...when(field('data.kind', 'is not', 'own'), {
    'sealed.manifest': { only: [''], why: 'each worker trains on its own part of sealed data' },
  }),
  ...when(field('sealed.manifest', 'is', ''), {
    'machines.vendors': { only: [[]], why: 'machines prove that they keep sealed data closed' },
  }),
  rule(
    'training.model',
    'it is pretrained, or a model of an .onnx file, exactly where features names start, ' +
      'and reads the data of start.model',
    ({ training, start }) => {
      const data = importedDataOf(start);
      if (isImported(training)) return data?.kind === formOf(training);
      return data === undefined && (training.model === 'pretrained') === (start !== null);
    },
  ),
  rule(
    'training.model',
    'it is not onnx-classes: the rows of certified runs are synthetic and have no classes',
    ({ training }) => training.model !== 'onnx-classes',
  ),
  rule(
    'start.adapter.rank',
    'it is 0 for a model of an .onnx file, whose parameters are all trained',
    ({ start }) => start?.model.architecture !== 'onnx' || start.adapter.rank === 0,
  ),
  rule(
    'training.context',
    'it is at most start.model.positions where the model has a table of positions',
    ({ training, start }) =>
      start?.model.architecture !== 'gpt2' || training.context <= start.model.positions,
  ),
  rule(
    'training.layers',
    `with training.width and training.ffn it makes at most ${MOST_PARAMETERS} parameters`,
    (spec) => !hasBlocks(spec) || blockParameters(spec.training) <= MOST_PARAMETERS,
  ),
  rule(
    'training.width',
    'it is a multiple of training.heads for a transformer of our own',
    (spec) => !hasBlocks(spec) || spec.training.width % spec.training.heads === 0,
  ),
  rule(
    'input',
    'it is there exactly for forecaster (form series) and vit (form images)',
    ({ training, input }) =>
      (input?.form ?? null) === (runDataOf(training).input.length > 0 ? formOf(training) : null),
  ),
  rule(
    'input.patch',
    'training.context, or input.pixels, is a multiple of it',
    ({ training, input }) =>
      input === null ||
      (input.form === 'series' ? training.context : input.pixels) % input.patch === 0,
  ),
  rule('founders', 'the author is one of them', ({ founders, author }) =>
    founders.includes(author),
  ),
  rule(
    'data.kind',
    'it is corpus or own for a text model, made for linear and mlp, ' +
      'and any of them for forecaster and vit',
    ({ training, data }) => runDataOf(training).kinds.includes(data.kind),
  ),
  rule(
    'evaluation',
    'it is null unless data.kind is own: every other kind has a validation part of its own; ' +
      'and there where forecaster or vit train on own data, ' +
      'since it says which columns or classes there are',
    ({ evaluation, data: { kind }, input }) =>
      evaluation === null ? kind !== 'own' || input === null : kind === 'own',
    'name a CSV or a folder of pictures with --evaluation',
  ),
];

const roundRules: readonly SpecRule[] = [
  ...when(field('committee.weights', 'is', 'stake'), {
    foundersDecide: { only: [false], why: 'there stake decides, not the number of seats' },
  }),
  ...when(field('stake.source', 'is', 'none'), {
    'committee.weights': { only: ['equal'] },
    'committee.minStake': { only: ['0'] },
  }),
  rule(
    'beacon.lagSeconds',
    'it is more than twice timing.skewMs',
    ({ beacon, timing }) => beacon.kind === 'none' || beacon.lagSeconds * 1000 > 2 * timing.skewMs,
  ),
  rule(
    'timing.graceMinMs',
    'it is at most timing.graceMaxMs',
    ({ timing }) => timing.graceMinMs <= timing.graceMaxMs,
  ),
  rule(
    'absentRounds',
    'it is at least liveRounds',
    ({ absentRounds, liveRounds }) => absentRounds >= liveRounds,
  ),
  ...when(
    either(field('training.owners', 'is above', 0), field('training.fragments', 'is above', 1)),
    {
      late: {
        only: ['discard'],
        why: 'late contributions would change parameters that no other worker sends',
      },
    },
  ),
  ...when(field('training.packing', 'is', 'trellis'), {
    'training.residual': {
      only: ['none'],
      why: 'what a trellis code does not carry is noise, which would grow from round to round',
      nearest: 'take --set residual=none, or --set packing=int8',
    },
  }),
  ...when(field('data.kind', 'is', 'own'), {
    'rerun.permille': {
      only: [0],
      why: 'other workers do not have the data to recompute the steps',
      nearest: 'leave rerun.permille out, or train on a shared text',
    },
  }),
  rule(
    'rerun.relays',
    'it names one at least where rerun.permille is above 0, and none where it is 0: ' +
      'private state travels to them alone',
    ({ rerun }) => rerun.permille > 0 === rerun.relays.length > 0,
    'say which: --set rerun.relays=URL',
  ),
  ...when(field('rerun.permille', 'is', 0), {
    jury: {
      only: [0],
      why: 'no contributions are drawn for recomputation',
      nearest: 'set how many are drawn: --set rerun.permille=N --set rerun.relays=URL',
    },
  }),
  ...when(field('rerun.permille', 'is above', 0), {
    late: {
      only: ['discard'],
      why: 'what waits to be listed late is in no state that can be derived',
      nearest: 'take --set late=discard',
    },
  }),
  ...when(either(field('late', 'is', 'defer'), field('stake.source', 'is not', 'none')), {
    contributors: {
      only: [0],
      why: 'drawn workers would owe late contributions, or have no weight',
      nearest: 'leave --contributors out',
    },
  }),
  rule(
    'pace.leastSteps',
    'it is at most training.innerSteps, and 1 where pace.innerSeconds is 0',
    ({ pace, training }) => pace.leastSteps <= (pace.innerSeconds === 0 ? 1 : training.innerSteps),
    'raise --inner-steps, the maximum of any worker, or lower leastSteps',
  ),
  ...when(field('training.weights', 'is not', 'examples'), {
    'pace.innerSeconds': {
      only: [0],
      why: 'workers that take more steps contribute more',
      nearest: 'take --set weights=examples',
    },
  }),
  rule(
    'limits.weightCap',
    'it is training.maxExamples, or where that is 0 training.innerSteps x training.batchSize',
    ({ limits, training }) => limits.weightCap === weightCapOf(training),
  ),
];

const HALVED = {
  says: 'it is a multiple of 2 to the power of tiers',
  why: 'each tier halves it',
  nearest: 'take fewer --tiers',
};
const UNMEASURED = 'no worker measures yet what a small tier learned at its own width';
const WHOLE = 'manifests of checkpoints are of full models';

const tieredRules: readonly SpecRule[] = when<RunSpec>(field('tiers', 'is above', 0), {
  'training.model': {
    says: 'it is a transformer over text',
    holds: ({ training }) => formOf(training) === 'tokens',
    nearest: 'take --model gpt, or --base',
  },
  'training.ffn': {
    ...HALVED,
    holds: ({ training, tiers, start }) => start !== null || training.ffn % 2 ** tiers === 0,
  },
  'start.model.ffn': {
    ...HALVED,
    holds: ({ start, tiers }) =>
      start === null || start.model.architecture === 'onnx' || start.model.ffn % 2 ** tiers === 0,
  },
  'start.model.architecture': {
    says: 'it is llama',
    holds: ({ start }) => start === null || start.model.architecture === 'llama',
    why: 'tiers are cut out of gate, up and down matrices',
    nearest: 'take another --base',
  },
  'training.fragments': {
    only: [1],
    why: 'fragments cut the model across its slices',
    nearest: 'take --set fragments=1',
  },
  'aggregation.rule': {
    only: ['mean', 'clipped-mean'],
    why: 'other rules compare rows, and rows of different tiers are of different length',
    nearest: 'take --set rule=clipped-mean',
  },
  'aggregation.leastRatePermille': {
    only: [1000],
    why: 'agreement is measured on whole contributions',
  },
  screening: { only: [false], why: UNMEASURED, nearest: 'leave --screening out' },
  scores: { only: [false], why: UNMEASURED, nearest: 'leave --scores out' },
  'rerun.permille': { only: [0], why: 'the steps of another tier cannot be recomputed yet' },
  places: { only: [[]], why: WHOLE },
  placement: { only: [null], why: WHOLE },
  parent: { only: [null], why: 'the state of another run is of a full model' },
});

const expertRules: readonly SpecRule[] = [
  rule(
    'mixture.experts',
    'it is above 0 exactly where features names experts',
    ({ mixture, features }) => mixture.experts > 0 === features.includes('experts'),
    'name their number with --set experts=N',
  ),
  rule(
    'mixture.groups',
    'each expert is in exactly one group, and each group has a name of its own',
    ({ mixture }) => areDisjoint(mixture),
    'name all experts once, like --set groups=a=0,1 --set groups=b=2,3',
  ),
  ...when<RunSpec>(field('mixture.experts', 'is above', 0), {
    'training.model': {
      says: 'it is char-gpt or gpt',
      holds: ({ training }) => ['char-gpt', 'gpt'].includes(training.model),
    },
    tiers: { only: [0], why: 'tiers cut the feed-forward layers that experts replace' },
    'training.owners': {
      only: [0],
      why: 'the group says what a worker sends',
      nearest: 'take --set owners=0',
    },
    'training.fragments': {
      only: [1],
      why: 'the group says what a worker sends',
      nearest: 'take --set fragments=1',
    },
    'aggregation.rule': {
      only: ['mean', 'clipped-mean'],
      why: 'other rules compare contributions, and those of two groups cover different tensors',
    },
    'aggregation.leastRatePermille': {
      only: [1000],
      why: 'agreement is measured on whole contributions',
    },
    late: {
      only: ['discard'],
      why: 'a late contribution covers the tensors of another round',
    },
    'rerun.permille': { only: [0], why: 'reruns train all tensors' },
  }),
];

/** Rules of MatFormer tiers; without tiers, only the one about `start.rings` applies. */
export const tierRules: readonly SpecRule[] = [
  ...tieredRules.map((each) => ({
    ...each,
    nearest: `${each.nearest ?? `leave ${each.at} out`}, or leave --tiers out`,
  })),
  rule(
    'start.rings',
    'there is one more of them than tiers, of start.root too where that is a list, ' +
      'and none where tiers is 0',
    ({ start, tiers }) => {
      if (start === null) return true;
      const wanted = tiers === 0 ? 0 : tiers + 1;
      const isFor = (list: readonly unknown[]) => list.length === wanted;
      return isFor(start.rings ?? []) && (!Array.isArray(start.root) || isFor(start.root));
    },
  ),
];

/** All rules, in the order in which they are checked. */
export const specRules: readonly SpecRule[] = [
  ...dataRules,
  ...roundRules,
  ...aggregationRules,
  ...tierRules,
  ...expertRules,
];

/** Throws a ConfigError (`spec/inconsistent`) for the first rule that is broken. */
export function assertConsistent(spec: RunSpec): void {
  assertTrustTier(spec);
  const broken = specRules.find(({ holds }) => !holds(spec));
  if (broken === undefined) return;
  const { at, says, nearest } = broken;
  const text = JSON.stringify(valueIn(spec, at)) ?? 'absent';
  const value = text.length > 100 ? `${text.slice(0, 100)}…` : text;
  throw new ConfigError('spec/inconsistent', `${at} is ${value}: it must be that ${says}`, {
    ...(nearest && { hint: nearest }),
    data: { at },
  });
}
