/** The contributions of one round as they arrive: whose are here in full and good, whose are not and why, and who sent two. */
import type { Held } from '../../consensus/round/round-state.ts';
import type { Submission } from '../../network/wire/certified-events.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import type { Signed } from '../../run/vote.ts';
import type { Bad } from './compose.ts';
import type { Pool } from './pool.ts';
import { judgeManifest, judgeSubmission, sharesOf, type Terms } from './submissions.ts';
import type { Tell } from './tell.ts';

export interface Watch {
  /** What is of another round, or of nobody who may send in this one, is passed over. */
  take(submission: Signed<Submission>): void;
  /** Pulls a payload that a check lacks. */
  pull(submission: Signed<Submission>): void;
  bad(): readonly Bad[];
  /** The first good one of each worker. */
  good(): readonly Omit<Held, 'delay'>[];
}

/** What a watch reports to, and where it gets payloads from. */
export interface Wants {
  readonly signal: AbortSignal;
  /** The payload of a manifest in chunks. */
  bring(manifest: Manifest): Promise<Uint8Array | undefined>;
  onHeld(worker: WorkerId, manifest: EventId): void;
  /** Two manifests of one worker in one place. */
  onFault(events: readonly [EventId, EventId]): void;
  onChange(): void;
}

/** More manifests of one worker are not looked at: two prove the fault. */
const MOST_OF_ONE = 2;

/** Watches for what these keys send in the round of these terms. */
export function createWatch(
  terms: Terms,
  keys: ReadonlySet<WorkerId>,
  { pool, tell }: { readonly pool: Pool; readonly tell: Tell },
  { signal, bring, onHeld, onFault, onChange }: Wants,
): Watch {
  const shares = sharesOf(terms);
  const seen = new Map<WorkerId, Signed<Submission>[]>();
  const bad = new Map<EventId, Bad>();
  const good = new Map<WorkerId, EventId>();
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
    tell.unusable(terms.round, worker, reason, detail);
  }

  function judge({ id, key, manifest }: Signed<Submission>, payload: Uint8Array): void {
    const judged = judgeSubmission(manifest, payload, terms);
    if (!judged.ok) {
      refuse(key, id, judged.rejection.reason, judged.rejection.detail);
      return;
    }
    if (!good.has(key)) good.set(key, id);
    onHeld(key, id);
  }

  return {
    take(submission) {
      const { id, key, manifest } = submission;
      if (manifest.round !== terms.round || !keys.has(key)) return;
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
    pull: (submission) => void pull(submission),
    bad: () => [...bad.values()],
    good: () => [...good].map(([worker, manifest]) => ({ worker, manifest })),
  };
}
