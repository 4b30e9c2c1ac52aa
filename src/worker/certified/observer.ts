/** Observing a round: whose contributions are here in full and good, whose are not and why, and who sent two. */
import type { Held } from '../../consensus/round/round-state.ts';
import type { Submission } from '../../network/wire/certified-events.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
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
  onChange(): void;
}

/** More manifests of one worker are not looked at: two prove the fault. */
const MOST_OF_ONE = 2;

export function createObserver(
  { state, context, member }: DecidingOptions,
  { signal, pull: bring, onHeld, onFault, onChange }: Wants,
): Observer {
  const { pool, tell } = member;
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

  function refuse(worker: WorkerId, manifest: EventId, reason: string, detail: string): void {
    if (bad.has(manifest)) return;
    bad.set(manifest, { worker, manifest, reason });
    tell.unusable(context.round, worker, reason, detail);
  }

  function judge({ id, key, manifest }: Signed<Submission>, payload: Uint8Array): void {
    const judged = judgeSubmission(manifest, payload, terms);
    if (judged.ok) onHeld(key, id);
    else refuse(key, id, judged.rejection.reason, judged.rejection.detail);
  }

  return {
    take(submission) {
      const { id, key, manifest } = submission;
      if (manifest.round !== context.round || !context.roster.includes(key)) return;
      const before = seen.get(key) ?? [];
      if (before.length >= MOST_OF_ONE || before.some((each) => each.id === id)) return;
      seen.set(key, [...before, submission]);
      for (const other of before) onFault([other.id, id]);
      const claim = judgeManifest(manifest, terms, shares);
      const payload = pool.payload(manifest);
      if (!claim.ok) refuse(key, id, claim.rejection.reason, claim.rejection.detail);
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
