/** One finished round, as the workers of this screen tell of it. */
import type { CertifiedRound, RunEvent } from '../certified/rounds/events.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

export interface RoundView {
  readonly index: number;
  /** Who finished it, with which state. */
  readonly digests: ReadonlyMap<string, Digest>;
  /** What the others say they hold after it. */
  readonly peers: ReadonlyMap<WorkerId, Digest>;
  /** Mean over those who finished it. */
  readonly trainingLoss: number;
  readonly validationLoss?: number;
  readonly bitsPerByte?: number;
  readonly accuracy?: number;
  /** Contributions counted: the fewest any worker had. */
  readonly accepted: number;
  /** Events refused: the most any worker had. */
  readonly refused: number;
  /** The largest payload and event any worker sent. */
  readonly payloadBytes: number;
  readonly eventBytes: number;
  readonly seconds: number;
  readonly sample?: string;
  /** How a committee ended it, where one did. */
  readonly certified?: CertifiedRound;
}

/** The last rounds that are shown: a run may have any number of them. */
const MOST_FINISHED = 256;

/** The rounds after a worker has told of one; `peers` is what others are known to hold after it. */
export function foldRound(
  finished: readonly RoundView[],
  name: string,
  event: Extract<RunEvent, { type: 'round' }>,
  peers: ReadonlyMap<WorkerId, Digest>,
): readonly RoundView[] {
  const before = finished.find(({ index }) => index === event.index);
  const digests = new Map([...(before?.digests ?? []), [name, event.digest] as const]);
  const share = before?.digests.has(name) ? 0 : 1 / digests.size;
  // who only followed a round has no loss
  const isNew = Number.isFinite(event.trainingLoss);
  const isFirst = before === undefined || !Number.isFinite(before.trainingLoss);
  const trainingLoss =
    isFirst || !isNew
      ? (isNew ? event : (before ?? event)).trainingLoss
      : before.trainingLoss + share * (event.trainingLoss - before.trainingLoss);
  const certified = event.certified ?? before?.certified;
  const validationLoss = event.validationLoss ?? before?.validationLoss;
  const bitsPerByte = event.bitsPerByte ?? before?.bitsPerByte;
  const accuracy = event.accuracy ?? before?.accuracy;
  const sample = event.sample ?? before?.sample;
  const round: RoundView = {
    index: event.index,
    digests,
    peers: new Map([...(before?.peers ?? []), ...peers]),
    trainingLoss,
    accepted: Math.min(event.accepted.length, before?.accepted ?? Number.POSITIVE_INFINITY),
    refused: Math.max(
      event.refused.length,
      event.certified?.rejected.length ?? 0,
      before?.refused ?? 0,
    ),
    payloadBytes: Math.max(event.payloadBytes, before?.payloadBytes ?? 0),
    eventBytes: Math.max(event.eventBytes, before?.eventBytes ?? 0),
    seconds: Math.max(event.seconds, before?.seconds ?? 0),
    ...(validationLoss === undefined ? {} : { validationLoss }),
    ...(bitsPerByte === undefined ? {} : { bitsPerByte }),
    ...(accuracy === undefined ? {} : { accuracy }),
    ...(sample === undefined ? {} : { sample }),
    ...(certified === undefined ? {} : { certified }),
  };
  return [...finished.filter(({ index }) => index !== event.index), round]
    .sort((a, b) => a.index - b.index)
    .slice(-MOST_FINISHED);
}
