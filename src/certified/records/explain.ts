/** Why a worker's contribution to a round was or was not counted, in plain words, each with the ids that show it. */
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

/** What `explainRound` gives: whether a contribution counted, and why. */
export interface Explanation {
  readonly counted: boolean;
  /** Sentences, the most important first. */
  readonly why: readonly string[];
}

/** Which contribution is asked about. */
export interface Question extends HistoryOptions {
  readonly worker: WorkerId;
  /** The index: from 0, as everywhere in code. */
  readonly round: number;
}

/**
 * Why a worker's contribution was or was not counted, from events alone; undefined if the round is not there. See the
 * example of `joinCertifiedRun`.
 */
export async function explainRound(
  archive: Opened,
  { worker, round, ...options }: Question,
): Promise<Explanation | undefined> {
  const { spec, gathered } = await openHistory(archive, options);
  const replayed: ReplayedRound[] = [];
  for (const each of replay(openingOf(spec, options), gathered)) {
    if (each.round >= round) replayed.push(each);
    if (replayed.length === 2) break;
  }
  const [target, after] = replayed;
  return target && explain(worker, target, after, gathered);
}

/** Of the round asked about, and of the one after it when that was decided too. */
export function explain(
  worker: WorkerId,
  replayed: ReplayedRound,
  after: ReplayedRound | undefined,
  events: Gathered,
): Explanation {
  const { round, before, decided } = replayed;
  const no = (...why: readonly string[]): Explanation => ({ counted: false, why });
  const index = before.ledger.members.findIndex(({ key }) => key === worker);
  if (decided === undefined) return no(`Nothing here decided ${roundName(round)}.`);
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
      `It was decided by ${by}, which lists no manifest of it.`,
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

/** Manifests it signed for the round. */
function manifestsOf(worker: WorkerId, round: number, { messages }: Gathered): readonly Manifest[] {
  return [...messages.values()]
    .filter((message): message is Signed<Submission> => message.type === 'manifest')
    .map(({ manifest }) => manifest)
    .filter((manifest) => manifest.worker === worker && manifest.round === round);
}

/** What anybody finds who judges it. */
function judge(manifest: Manifest, { before }: ReplayedRound, events: Gathered): string {
  const name = `Manifest ${manifest.eventId}`;
  if (!hasModel(before)) return `${name} is here; without the model it is not judged.`;
  const of = roundParametersOf(before, events);
  if (!of.ok) return `${name} is here; without the stakes of the round it is not judged.`;
  const roundParameters = of.value;
  const claim = judgeManifest(manifest, roundParameters, assignmentOf(roundParameters));
  if (!claim.ok)
    return `${name} does not count (${claim.rejection.reason}): ${claim.rejection.detail}.`;
  const payload = events.payload(manifest);
  if (payload === undefined) return `${name} is here, its payload is not.`;
  const judged = judgeSubmission(manifest, payload, roundParameters);
  if (judged.ok) return `${name} is valid.`;
  return `${name} does not count (${judged.rejection.reason}): ${judged.rejection.detail}.`;
}

/** A valid manifest that the outcome passes over: the proposer did not list it, and who says to have held it. */
function whyUnlisted(
  index: number,
  { outcome, certificate }: Decided,
  by: string,
): readonly string[] {
  const holders = certificate.commits.filter(({ unlisted }) => unlisted.includes(index));
  const seen =
    holders.length === 0
      ? 'no vote of its certificate says that it was there in time'
      : `it was there in time by the votes ${holders.map(({ id }) => id).join(', ')}`;
  const against = certificate.commits.filter(({ features }) =>
    features?.screening?.screened.includes(index),
  );
  const screened =
    against.length === 0
      ? []
      : [
          `Screened: ${against.length} of the ${certificate.commits.length} votes of its ` +
            'certificate say that it does harm by their own measure of the loss: ' +
            `${against.map(({ id }) => id).join(', ')}.`,
        ];
  return [...screened, `Not listed by ${outcome.proposer}, who proposed ${by}; ${seen}.`];
}

function joinsOf(worker: WorkerId, { messages }: Gathered): readonly string[] {
  const joins = [...messages.values()].filter(
    (message) => message.type === 'join' && message.key === worker,
  );
  if (joins.length === 0) return ['No join of it is here.'];
  return [`It asked to join by ${joins.map(({ id }) => id).join(', ')}.`];
}
