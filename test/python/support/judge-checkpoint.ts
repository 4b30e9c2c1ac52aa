/** Judges a checkpoint event like a worker that collects checkpoints. */
import { checkpoint } from 'nostrain/kinds';
import type { SignedEvent } from 'nostrain/network';
import type { EventOf } from 'nostrain/python';
import type { RejectReason } from 'nostrain/run';
import { type ClaimContext, judgeClaim } from '../../../src/network/wire/judged.ts';
import { readRequested } from '../../../src/python/collect/collect.ts';
import { createManualClock } from '../../support/manual-clock.ts';

export type JudgedCheckpoint =
  | ({ readonly ok: true } & Pick<EventOf<'checkpoint'>, 'tags' | 'body'>)
  | { readonly ok: false; readonly reason: RejectReason };

/** Returns tags and body, or why it is refused. The collector skips checkpoints of other runs, so they are judged here. */
export function judgeCheckpoint(event: SignedEvent, context: ClaimContext): JudgedCheckpoint {
  const { run, anyKey, nowSeconds } = context;
  const wanted = { run, anyKey, type: 'checkpoint', matches: () => true } as const;
  const kept = readRequested(event, wanted, { clock: createManualClock(1000 * nowSeconds) });
  if (typeof kept === 'string') return { ok: false, reason: kept };
  if (kept) return { ok: true, tags: kept.read.tags, body: kept.read.body };
  const parsed = checkpoint.parse(event);
  const claim = parsed.ok ? judgeClaim(event, parsed.value, context) : undefined;
  return { ok: false, reason: claim?.rejection.reason ?? 'malformed' };
}
