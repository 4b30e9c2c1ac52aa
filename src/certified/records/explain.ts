/** Explains in plain words why a worker's contribution to a round counted or not, with the ids that prove it. */
import type { Manifest } from '../../network/wire/manifests.ts';
import { roundName, type WorkerId } from '../../run/ids.ts';
import type { Signed } from '../../run/vote.ts';
import type { Decided } from '../decisions/certificate.ts';
import { openingOf } from '../decisions/chain.ts';
import {
  assignmentOf,
  judgeManifest,
  judgeSubmission,
  roundParametersOf,
} from '../decisions/contributions.ts';
import type { Gathered } from '../decisions/evidence.ts';
import { hasModel, type ReplayedRound, replay } from '../decisions/replay.ts';
import type { Submission } from '../wire/certified-events.ts';
import { type HistoryOptions, type Opened, openHistory } from './archive.ts';

/** Whether a contribution counted, and why. */
export interface Explanation {
  readonly counted: boolean;
  /** Sentences, the most important first. */
  readonly why: readonly string[];
}

/** The round to explain. */
export interface RoundQuestion extends HistoryOptions {
  /** Round index, from 0. */
  readonly round: number;
}

/** The contribution to explain. */
export interface Question extends RoundQuestion {
  readonly worker: WorkerId;
}

/** Whether a worker's contribution counted, and why. */
export interface WorkerExplanation extends Explanation {
  readonly worker: WorkerId;
}

/**
 * Explains from events why a worker's contribution counted or not; undefined if the archive does not reach the round.
 * See the example of `joinCertifiedRun`.
 */
export async function explainRound(
  archive: Opened,
  { worker, ...question }: Question,
): Promise<Explanation | undefined> {
  const history = await replayedRound(archive, question);
  return history && explain(worker, history.target, history.after, history.gathered);
}

/** Explains the contributions of all members of a round; undefined if the archive does not reach the round. */
export async function explainWorkers(
  archive: Opened,
  question: RoundQuestion,
): Promise<readonly WorkerExplanation[] | undefined> {
  const history = await replayedRound(archive, question);
  if (!history) return undefined;
  const { target, after, gathered } = history;
  return target.before.ledger.members.map(({ key: worker }) => ({
    worker,
    ...explain(worker, target, after, gathered),
  }));
}

/** Replays a run up to a round and the one after it. */
async function replayedRound(
  archive: Opened,
  { round, ...options }: RoundQuestion,
): Promise<
  | { readonly target: ReplayedRound; readonly after?: ReplayedRound; readonly gathered: Gathered }
  | undefined
> {
  const { spec, gathered } = await openHistory(archive, options);
  const replayed: ReplayedRound[] = [];
  for (const each of replay(openingOf(spec, options), gathered)) {
    if (each.round >= round) replayed.push(each);
    if (replayed.length === 2) break;
  }
  const [target, after] = replayed;
  return target && { target, ...(after && { after }), gathered };
}

/** Explains a contribution from its replayed round, and from the next one if that was decided too. */
export function explain(
  worker: WorkerId,
  replayed: ReplayedRound,
  after: ReplayedRound | undefined,
  events: Gathered,
): Explanation {
  const { round, before, decided } = replayed;
  const no = (...why: readonly string[]): Explanation => ({ counted: false, why });
  const index = before.ledger.members.findIndex(({ key }) => key === worker);
  if (decided === undefined) return no(`These events do not decide ${roundName(round)}.`);
  const { digest } = decided.certificate;
  const by = `outcome ${digest} of ${roundName(round)}`;
  const row = decided.outcome.accepted.find((each) => each.index === index && !each.late);
  if (index >= 0 && row !== undefined) {
    return { counted: true, why: [`Counted: ${by} lists manifest ${row.manifest}.`] };
  }
  const late = lateListing(worker, after);
  if (late !== undefined) return { counted: true, why: [late] };
  const refused = decided.outcome.rejected.find((each) => each.index === index);
  if (index >= 0 && refused !== undefined) {
    return no(`Rejected: ${by} lists manifest ${refused.manifest} as ${refused.reason}.`);
  }
  const made = manifestsOf(worker, round, events);
  if (index < 0) return no(`Not in the roster of ${roundName(round)}.`, ...joinsOf(worker, events));
  if (made.length === 0) {
    return no(
      `Not counted: nothing from this worker arrived for ${roundName(round)}.`,
      `The round was decided by ${by}, which lists no manifest of this worker.`,
    );
  }
  const judged = made.map((manifest) => judge(manifest, replayed, events));
  if (decided.outcome.result === 'void') {
    return no(`The round ended void (${digest}): nothing was counted.`, ...judged);
  }
  return no(...judged, ...whyUnlisted(index, decided, by));
}

function lateListing(worker: WorkerId, after: ReplayedRound | undefined): string | undefined {
  if (after?.decided === undefined) return undefined;
  const index = after.before.ledger.members.findIndex(({ key }) => key === worker);
  const { outcome, certificate } = after.decided;
  const row = outcome.accepted.find((each) => each.late && each.index === index);
  return index >= 0 && row !== undefined
    ? `Counted late: outcome ${certificate.digest} of ${roundName(after.round)} lists manifest ` +
        `${row.manifest}.`
    : undefined;
}

/** Returns the manifests that the worker signed for the round. */
function manifestsOf(worker: WorkerId, round: number, { messages }: Gathered): readonly Manifest[] {
  return [...messages.values()]
    .filter((message): message is Signed<Submission> => message.type === 'manifest')
    .map(({ manifest }) => manifest)
    .filter((manifest) => manifest.worker === worker && manifest.round === round);
}

/** Judges a manifest and its payload again. */
function judge(manifest: Manifest, { before }: ReplayedRound, events: Gathered): string {
  const name = `Manifest ${manifest.eventId}`;
  if (!hasModel(before)) return `${name} is available, but cannot be judged without the model.`;
  const of = roundParametersOf(before, events);
  if (!of.ok) return `${name} is available, but cannot be judged without the stakes of the round.`;
  const roundParameters = of.value;
  const claim = judgeManifest(manifest, roundParameters, assignmentOf(roundParameters));
  if (!claim.ok)
    return `${name} does not count (${claim.rejection.reason}): ${claim.rejection.detail}.`;
  const payload = events.payload(manifest);
  if (payload === undefined) return `${name} is available, but its payload is not.`;
  const judged = judgeSubmission(manifest, payload, roundParameters);
  if (judged.ok) return `${name} is valid.`;
  return `${name} does not count (${judged.rejection.reason}): ${judged.rejection.detail}.`;
}

/**
 * Explains why a valid manifest is not listed: who proposed the outcome, and which voters had received the manifest.
 */
function whyUnlisted(
  index: number,
  { outcome, certificate }: Decided,
  by: string,
): readonly string[] {
  const holders = certificate.commits.filter(({ unlisted }) => unlisted.includes(index));
  const seen =
    holders.length === 0
      ? 'no vote of its certificate says that it arrived in time'
      : `it arrived in time according to the votes ${holders.map(({ id }) => id).join(', ')}`;
  const against = certificate.commits.filter(({ features }) =>
    features?.screening?.screened.includes(index),
  );
  const screened =
    against.length === 0
      ? []
      : [
          `Screened: ${against.length} of the ${certificate.commits.length} votes of its ` +
            'certificate say that it is harmful by their own measurements of the loss: ' +
            `${against.map(({ id }) => id).join(', ')}.`,
        ];
  return [...screened, `Not listed by ${outcome.proposer}, who proposed ${by}; ${seen}.`];
}

function joinsOf(worker: WorkerId, { messages }: Gathered): readonly string[] {
  const joins = [...messages.values()].filter(
    (message) => message.type === 'join' && message.key === worker,
  );
  if (joins.length === 0) return ['These events have no join of this worker.'];
  return [`It asked to join by ${joins.map(({ id }) => id).join(', ')}.`];
}
