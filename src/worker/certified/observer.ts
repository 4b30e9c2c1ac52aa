/** Observing a round: whose contributions are here in full and good, whose are not and why, and who sent two. */
import type { Held } from '../../consensus/round/round-state.ts';
import type { Submission } from '../../network/wire/certified-events.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import type { Signed } from '../../run/vote.ts';
import type { Bad } from './compose.ts';
import type { DecidingOptions } from './deciding-options.ts';
import { termsOf } from './rows.ts';
import { judgeManifest, judgeSubmission, sharesOf } from './submissions.ts';

export interface Observer {
  take(submission: Signed<Submission>): void;
  /** Pulls a payload that a check lacks. */
  pull(manifest: EventId): void;
  bad(): readonly Bad[];
  /** Good ones of the round before that no outcome listed yet, under `defer`. */
  late(): readonly Held[];
  /** Those of them that an outcome must list. */
  owed(): readonly EventId[];
}

interface Wants {
  readonly signal: AbortSignal;
  /** The payload of a manifest in chunks. */
  pull(manifest: Manifest): Promise<Uint8Array | undefined>;
  onHeld(worker: WorkerId, manifest: EventId): void;
  /** Two manifests of one worker in one place. */
  onFault(events: readonly [EventId, EventId]): void;
  onRefused(rejection: Rejection, manifest: EventId): void;
  onChange(): void;
}

/** More manifests of one worker are not looked at: two prove the fault. */
const MOST_OF_ONE = 2;

export function createObserver(
  { state, context, member }: DecidingOptions,
  { signal, pull: bring, onHeld, onFault, onRefused, onChange }: Wants,
): Observer {
  const { pool } = member;
  const terms = termsOf(state, false)!;
  const shares = sharesOf(terms);
  const seen = new Map<WorkerId, Signed<Submission>[]>();
  const bad = new Map<EventId, Bad>();
  const pulling = new Set<EventId>();

  async function pull(submission: Signed<Submission>): Promise<void> {
    const { id, manifest } = submission;
    if (pulling.has(id)) return;
    pulling.add(id);
    const payload = await bring(manifest).catch(() => undefined);
    pulling.delete(id);
    if (payload === undefined || signal.aborted) return;
    pool.addPayload(manifest, payload);
    judge(submission, payload);
    onChange();
  }

  function refuse({ id, key }: Signed<Submission>, rejection: Rejection): void {
    if (bad.has(id)) return;
    bad.set(id, { worker: key, manifest: id, reason: rejection.reason });
    onRefused(rejection, id);
  }

  function judge(submission: Signed<Submission>, payload: Uint8Array): void {
    const judged = judgeSubmission(submission.manifest, payload, terms);
    if (judged.ok) onHeld(submission.key, submission.id);
    else refuse(submission, judged.rejection);
  }

  return {
    take(submission) {
      const { id, key, manifest } = submission;
      if (manifest.round !== context.round) return;
      const claim = judgeManifest(manifest, terms, shares);
      if (!context.roster.includes(key)) {
        // of strangers nothing is remembered: there may be any number of them
        if (!claim.ok) onRefused(claim.rejection, id);
        return;
      }
      const before = seen.get(key) ?? [];
      if (before.length >= MOST_OF_ONE || before.some((each) => each.id === id)) return;
      seen.set(key, [...before, submission]);
      for (const other of before) onFault([other.id, id]);
      const payload = pool.payload(manifest);
      if (!claim.ok) refuse(submission, claim.rejection);
      else if (payload === undefined) void pull(submission);
      else judge(submission, payload);
    },
    pull(id) {
      const noun = pool.noun(id);
      if (noun?.type === 'manifest') void pull(noun);
    },
    bad: () => [...bad.values()],
    late: () => [],
    owed: () => [],
  };
}
