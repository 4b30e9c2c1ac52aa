/**
 * Collects contributions as they arrive: which are complete and valid, which are invalid and why, and who sent two.
 * Under `defer` also those of the previous round that no outcome has listed.
 */
import type { Arrival } from '../../consensus/round/round-state.ts';
import { newer } from '../../network/wire/judged.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import { lateOf } from '../../run/ledger.ts';
import type { Signed } from '../../run/vote.ts';
import {
  assignmentOf,
  judgeManifest,
  judgeSubmission,
  previousRoundParametersOf,
  type RoundParameters,
  roundParametersOf,
  unwrapRuling,
} from '../decisions/contributions.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import type { ProtocolMessage, Submission } from '../wire/certified-events.ts';
import type { Bad, ContributionRef } from './compose.ts';
import type { DriverOptions } from './round.ts';

export interface ManifestWatch {
  /** Takes a manifest; ignores other rounds and keys that may not send in this one. */
  take(submission: Signed<Submission>): void;
  pull(submission: Signed<Submission>): void;
  bad(): readonly Bad[];
  /** Returns the valid contribution of each worker; of one that was signed again, the newest event. */
  good(): readonly Omit<Arrival, 'delay'>[];
}

export interface Wants {
  readonly signal: AbortSignal;
  bring(manifest: Manifest): Promise<Uint8Array | undefined>;
  onComplete(worker: WorkerId, manifest: EventId): void;
  /** Called with two different manifests of one worker for the same round. */
  onFault(events: readonly [EventId, EventId]): void;
  onRefused(rejection: Rejection, manifest: EventId): void;
  onChange(): void;
}

/** Manifests examined per worker: two prove a fault, and an honest one may be signed again for proof of work. */
const MOST_OF_ONE = 4;

/** Watches the contributions of these keys to the round with these parameters. */
function createWatch(
  roundParameters: RoundParameters,
  keys: ReadonlySet<WorkerId>,
  evidence: EvidenceStore,
  { signal, bring, onComplete, onFault, onRefused, onChange }: Wants,
): ManifestWatch {
  const assignment = assignmentOf(roundParameters);
  const seen = new Map<WorkerId, Signed<Submission>[]>();
  const bad = new Map<EventId, Bad>();
  const good = new Map<WorkerId, Signed<Submission>>();
  const pulling = new Set<EventId>();

  async function pull(submission: Signed<Submission>): Promise<void> {
    const { id, manifest } = submission;
    if (pulling.has(id)) return;
    pulling.add(id);
    const payload = await bring(manifest).catch(() => undefined);
    pulling.delete(id);
    if (payload === undefined || signal.aborted) return;
    evidence.addPayload(manifest, payload);
    judge(submission, payload);
    onChange();
  }

  function refuse({ id, key }: Signed<Submission>, rejection: Rejection): void {
    if (bad.has(id)) return;
    bad.set(id, { worker: key, manifest: id, reason: rejection.reason });
    onRefused(rejection, id);
  }

  function judge(submission: Signed<Submission>, payload: Uint8Array): void {
    const { id, key, manifest } = submission;
    const judged = judgeSubmission(manifest, payload, roundParameters);
    if (!judged.ok) {
      refuse(submission, judged.rejection);
      return;
    }
    const before = good.get(key);
    if (before === undefined || newer(manifest, before.manifest)) good.set(key, submission);
    onComplete(key, id);
  }

  return {
    take(submission) {
      const { id, key, manifest } = submission;
      if (manifest.round !== roundParameters.round) return;
      const claim = judgeManifest(manifest, roundParameters, assignment);
      if (!keys.has(key)) {
        // nothing is stored for strangers: there may be any number of them
        if (!claim.ok) onRefused(claim.rejection, id);
        return;
      }
      const before = seen.get(key) ?? [];
      if (before.length >= MOST_OF_ONE || before.some((each) => each.id === id)) return;
      seen.set(key, [...before, submission]);
      for (const other of before) onFault([other.id, id]);
      const payload = evidence.payload(manifest);
      if (!claim.ok) refuse(submission, claim.rejection);
      else if (payload === undefined) void pull(submission);
      else judge(submission, payload);
    },
    pull: (submission) => void pull(submission),
    bad: () => [...bad.values()],
    good: () => [...good].map(([worker, { id: manifest }]) => ({ worker, manifest })),
  };
}

export interface Observer {
  /** Reads stored manifests and subscribes to late ones. */
  begin(): void;
  take(message: Extract<ProtocolMessage, { readonly type: 'manifest' }>): void;
  /** Downloads a payload that a check lacks. */
  pull(manifest: EventId): void;
  bad(): readonly Bad[];
  /** Returns the valid contributions to this round, however late. */
  good(): readonly ContributionRef[];
  /** Returns the valid contributions to the previous round that no outcome has listed, under `defer`. */
  late(): readonly ContributionRef[];
  close(): void;
}

/** Watches this round, and the previous one if its contributions may still be listed. */
export function createObserver(
  { state, context, ports }: Pick<DriverOptions, 'state' | 'context' | 'ports'>,
  wants: Wants,
  onMessage: (message: ProtocolMessage) => void,
): Observer {
  const { evidence, control } = ports;
  const roster = new Set(context.roster);
  const now = createWatch(
    unwrapRuling(roundParametersOf(state, evidence)),
    roster,
    evidence,
    wants,
  );
  const lateParameters = unwrapRuling(previousRoundParametersOf(state, evidence));
  const owing = lateOf(state.ledger);
  // late arrivals must not affect this round's deadline
  const apart: Wants = {
    ...wants,
    onComplete: wants.onChange,
    // refusals of strangers were already reported in that round
    onRefused: (rejection, id) => {
      if (owing.some((key) => key === rejection.worker)) wants.onRefused(rejection, id);
    },
  };
  const before: ManifestWatch | undefined =
    lateParameters !== null && owing.length > 0
      ? createWatch(lateParameters, new Set(owing), evidence, apart)
      : undefined;
  let listening: { close(): void } | undefined;
  return {
    begin() {
      if (before === undefined) return;
      for (const message of evidence.messages())
        if (message.type === 'manifest') before.take(message);
      listening = control.listenToManifests(state.round - 1, owing, { take: onMessage });
    },
    take(message) {
      now.take(message);
      before?.take(message);
    },
    pull(id) {
      const message = evidence.message(id);
      if (message?.type !== 'manifest') return;
      (message.manifest.round === state.round ? now : before)?.pull(message);
    },
    bad: now.bad,
    good: now.good,
    late: () => before?.good() ?? [],
    close: () => listening?.close(),
  };
}
