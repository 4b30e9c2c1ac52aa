/** Summary of a certified round for reports: signers, rejected contributions, joins, leaves, faults. */
import type { EventId, WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { RoundSummary } from '../worker/events.ts';
import type { Decision } from './driven-round.ts';
import type { CertifiedRound } from './events.ts';
import type { Evidence } from './evidence.ts';
import type { ReadyRound } from './round-inputs.ts';

/** The largest payload and event of what an outcome lists. */
export function bytesOf(
  { accepted }: Outcome,
  evidence: Evidence,
): Pick<RoundSummary, 'payloadBytes' | 'eventBytes'> {
  const manifests = accepted.flatMap(({ manifest: id }) => {
    const noun = evidence.noun(id);
    return noun?.type === 'manifest' ? [noun.manifest] : [];
  });
  return {
    payloadBytes: Math.max(0, ...manifests.map(({ bytes }) => bytes)),
    eventBytes: Math.max(0, ...manifests.map(({ eventBytes }) => eventBytes)),
  };
}

/** Who signed, who was refused, who came and went. */
export function describe(
  { electorate }: ReadyRound,
  { outcome, certificate, next }: Decision,
  evidence: Evidence,
): CertifiedRound {
  const { roster, committee } = electorate;
  const { attempt, view, commits } = certificate;
  const keyOf = (id: EventId) => evidence.noun(id)?.key;
  const culpritOf = (id: EventId) => {
    const noun = evidence.noun(id);
    return noun?.type === 'fault' ? noun.culprit : undefined;
  };
  return {
    ...{ result: outcome.result, attempt, view, root: next.modelRoot, of: committee.size },
    signers: known(commits.map(keyOf)),
    rejected: outcome.rejected.map(({ index, reason }) => ({ worker: roster[index]!, reason })),
    faults: known(outcome.faults.map(culpritOf)),
    joined: keysIn(outcome.joins).filter((key) => !roster.includes(key)),
    left: keysIn(outcome.leaves),
    late: outcome.accepted.flatMap(({ index, late }) => (late ? [roster[index]!] : [])),
  };
}

const keysIn = (listed: readonly { readonly key: WorkerId }[]): readonly WorkerId[] =>
  known(listed.map(({ key }) => key));

const known = (keys: readonly (WorkerId | undefined)[]): readonly WorkerId[] =>
  keys.filter((key) => key !== undefined).sort();
