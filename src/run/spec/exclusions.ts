/** What excludes what in a run spec: bounds of sizes, and what must hold between its sections. */
import { ConfigError } from '../../base/errors.ts';
import { areNeeded } from '../chunked-files.ts';
import { formOf, runDataOf } from '../data-forms.ts';
import {
  aggregationRules,
  assertTier,
  rule,
  type SpecRule,
  tierRules,
} from './aggregation-rules.ts';
import type { RunSpec } from './run-spec.ts';

const hasBlocks = ({ training }: RunSpec): boolean =>
  formOf(training) !== 'rows' && training.model !== 'pretrained';

/** What `limits.weightCap` is by default: the examples of a round, or fewer. */
export const weightCapOf = ({
  maxExamples,
  innerSteps,
  batchSize,
}: Pick<RunSpec['training'], 'maxExamples' | 'innerSteps' | 'batchSize'>): number =>
  maxExamples || innerSteps * batchSize;

/** Anybody may publish a spec: a reader must be able to lay its model out. */
const MOST = { width: 65_536, layers: 1024, heads: 1024, context: 65_536, ffn: 262_144 } as const;
const MOST_HIDDEN = 16;

const sizeRules: readonly SpecRule[] = [
  ...Object.entries(MOST).map(([name, most]) =>
    rule(
      `training.${name}`,
      `it is at most ${most}`,
      ({ training }) => training[name as keyof typeof MOST] <= most,
    ),
  ),
  rule(
    'training.hidden',
    `it is at most ${MOST_HIDDEN} sizes of at most ${MOST.width}`,
    ({ training: { hidden } }) =>
      hidden.length <= MOST_HIDDEN && hidden.every((size) => size <= MOST.width),
  ),
];

const dataRules: readonly SpecRule[] = [
  rule(
    'dataFrom',
    'there is none where data.kind is not corpus',
    ({ data, dataFrom }) => dataFrom === '' || data.kind === 'corpus',
  ),
  rule(
    'files.each',
    'each is the text of data, or a file of start by its name and hash',
    ({ files, data, start }) =>
      files === null ||
      areNeeded(files, data.kind === 'corpus' ? data.sha256 : undefined, start?.files),
  ),
  rule(
    'training.model',
    'it is pretrained exactly where features names start',
    ({ training, start }) => (training.model === 'pretrained') === (start !== null),
  ),
  rule(
    'training.context',
    'it is at most start.model.positions where the model has a table of positions',
    ({ training, start }) =>
      start?.model.architecture !== 'gpt2' || training.context <= start.model.positions,
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
    'it is corpus or own for a text model, made for linear and mlp, and any of them for forecaster and vit',
    ({ training, data }) => runDataOf(training).kinds.includes(data.kind),
  ),
  rule(
    'evaluation',
    'it is null unless data.kind is own: every other kind has a validation part of its own; and there where forecaster or vit train on own data, since it says which columns or classes there are',
    ({ evaluation, data: { kind }, input }) =>
      evaluation === null ? kind !== 'own' || input === null : kind === 'own',
    'name a CSV or a folder of pictures with --evaluation',
  ),
];

const roundRules: readonly SpecRule[] = [
  rule(
    'committee.weights',
    'it is equal where stake.source is none',
    ({ committee, stake }) => committee.weights === 'equal' || stake.source !== 'none',
  ),
  rule(
    'committee.minStake',
    'it is 0 where stake.source is none',
    ({ committee, stake }) => committee.minStake === '0' || stake.source !== 'none',
  ),
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
  rule(
    'late',
    'it is discard where training.owners is above 0 or training.fragments above 1: what comes late then moves parameters that nobody else sends',
    ({ late, training: { owners, fragments } }) =>
      late === 'discard' || (owners === 0 && fragments === 1),
  ),
  rule(
    'rerun.permille',
    'it is 0 where data.kind is own: nobody else has the rows to run the steps again on',
    ({ rerun, data }) => rerun.permille === 0 || data.kind !== 'own',
    'leave rerun.permille out, or train on a text that everybody has',
  ),
  rule(
    'rerun.relays',
    'it names one at least where rerun.permille is above 0, and none where it is 0: private state travels to them alone',
    ({ rerun }) => rerun.permille > 0 === rerun.relays.length > 0,
    'say which: --set rerun.relays=URL',
  ),
  rule(
    'jury',
    'it is 0 where rerun.permille is: nothing is drawn that members could run again',
    ({ jury, rerun }) => jury === 0 || rerun.permille > 0,
    'say how much is drawn: --set rerun.permille=N --set rerun.relays=URL',
  ),
  rule(
    'late',
    'it is discard where rerun.permille is above 0: what waits to be listed late is in no state that can be derived',
    ({ late, rerun }) => late === 'discard' || rerun.permille === 0,
    'take --set late=discard',
  ),
  rule(
    'contributors',
    'it is 0 where late is defer or there is stake: who is drawn would owe what comes late, or weigh nothing',
    ({ contributors, late, stake }) =>
      contributors === 0 || (late === 'discard' && stake.source === 'none'),
    'leave --contributors out',
  ),
  rule(
    'pace.leastSteps',
    'it is at most training.innerSteps, and 1 where pace.innerSeconds is 0',
    ({ pace, training }) => pace.leastSteps <= (pace.innerSeconds === 0 ? 1 : training.innerSteps),
    'raise --inner-steps, which is the most that anybody takes, or lower leastSteps',
  ),
  rule(
    'pace.innerSeconds',
    'it is 0 unless training.weights is examples: who takes more steps brings more',
    ({ pace, training }) => pace.innerSeconds === 0 || training.weights === 'examples',
    'take --set weights=examples',
  ),
  rule(
    'limits.weightCap',
    'it is training.maxExamples, or where that is 0 training.innerSteps x training.batchSize',
    ({ limits, training }) => limits.weightCap === weightCapOf(training),
  ),
];

/** All rules, in the order in which they are judged. */
export const specRules: readonly SpecRule[] = [
  ...sizeRules,
  ...dataRules,
  ...roundRules,
  ...aggregationRules,
  ...tierRules,
];

/** Throws a `ConfigError` that names the first rule broken. */
export function assertConsistent(spec: RunSpec): void {
  assertTier(spec);
  const broken = specRules.find(({ holds }) => !holds(spec));
  if (broken === undefined) return;
  const { at, says, nearest } = broken;
  throw new ConfigError(
    'spec/inconsistent',
    `${at} is ${valueAt(spec, at)}: it must be that ${says}`,
    { ...(nearest && { hint: nearest }), data: { at } },
  );
}

function valueAt(spec: RunSpec, path: string): string {
  const value = path
    .split('.')
    .reduce<unknown>((at, name) => (at as Readonly<Record<string, unknown>>)[name], spec);
  const text = JSON.stringify(value) ?? 'absent';
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
