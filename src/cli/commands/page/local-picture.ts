/** What a run's own folder knows of it, as the page shows runs: losses, texts and who counted, without votes. */
import type { CertifiedSummary } from '../../../certified/rounds/events.ts';
import type { RoundPicture, RunPicture } from '../../../dashboard/run-picture.ts';
import type { LocalRun } from '../../../node/files/local-runs.ts';
import type { Digest } from '../../../run/ids.ts';

/** The picture; `run` is the id of a certified run. */
export function localPicture(kept: LocalRun, run: Digest | undefined): RunPicture {
  const { name, model = '', kind, rounds: planned, history, state, lossUnit = '' } = kept;
  const rounds = history.map(roundOf);
  const last = history.at(-1);
  return {
    run: run ?? kept.run ?? name,
    name,
    model,
    tier: kind,
    planned: planned ?? rounds.length,
    innerSteps: 0,
    seats: 0,
    hasText: last?.sample !== undefined,
    reports: true,
    rounds,
    lossUnit,
    workers: [],
    relays: [],
    refused: [],
    events: 0,
    isCaughtUp: state !== 'running',
  };
}

function roundOf(summary: CertifiedSummary): RoundPicture {
  const { index, accepted, trainingLoss, validationLoss, sample } = summary;
  const { certified, bitsPerByte, accuracy } = summary;
  return {
    round: index,
    result: certified?.result ?? 'final',
    time: 0,
    outcome: '',
    proposer: '',
    attempt: certified?.attempt ?? 0,
    view: certified?.view ?? 0,
    roster: accepted,
    committee: [],
    quorum: 0,
    signers: certified?.signers ?? [],
    sent: [],
    forks: [],
    accepted: accepted.map((worker) => ({ worker, late: false })),
    rejected: certified?.rejected ?? [],
    joined: certified?.joined ?? [],
    left: certified?.left ?? [],
    faults: (certified?.faults ?? []).map((worker) => ({ worker, kind: 'fault' })),
    modelRoot: summary.digest,
    ledgerRoot: '',
    ...(Number.isFinite(trainingLoss) && { ownLoss: trainingLoss }),
    ...(validationLoss !== undefined && { sharedLoss: validationLoss }),
    ...(bitsPerByte !== undefined && { bitsPerByte }),
    ...(accuracy !== undefined && { accuracy }),
    ...(sample !== undefined && { sample }),
  };
}
