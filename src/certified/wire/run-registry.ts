/** Runs on relays: publish one with its evaluation slice, fetch one by its address, list what there is. Nothing a relay says is believed. */

import { toHex } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { publishWithAttachments } from '../../network/attachments/publish.ts';
import { pullOnce } from '../../network/attachments/pull.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import { within } from '../../network/transport/deadline.ts';
import type { Delivery } from '../../network/transport/delivery.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Evaluation } from '../../run/spec/spec-table.ts';
import {
  buildRun,
  type PublishedRun,
  type RunAddress,
  runFilter,
  specLifetime,
  toRun,
  toServedRun,
} from './runs.ts';
import { specFilter } from './stored-run.ts';

export interface BoardOptions {
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly signal: AbortSignal;
}

/** Of as many specs as relays are asked for in one go; each is at most an event. */
const MOST_HELD = 500;

/** How long other relays may take once one has all of it. */
const OTHERS_MS = 8000;

/** Publishes the slice in chunks, then the spec; a relay took it when it took all of both. One that says nothing is given up when others have it. */
export async function publishRun(
  spec: RunSpec,
  slice: Uint8Array | undefined,
  { relays, clock, sha256, signal, sign }: BoardOptions & { sign(draft: EventDraft): SignedEvent },
): Promise<Delivery> {
  const lifetime = specLifetime(clock);
  const event = sign(buildRun(spec, lifetime));
  const attachments = slice ? [{ payload: slice }] : [];
  const slow = new AbortController();
  const { taken, settled } = publishWithAttachments(event, attachments, {
    relays,
    sign,
    sha256,
    lifetime,
    signal: AbortSignal.any([signal, slow.signal]),
  });
  if (await taken) await within(settled, OTHERS_MS, clock, signal);
  slow.abort(new Error('other relays have it'));
  return settled;
}

/** The spec of that run id, whoever serves it; or why there is none after `timeoutMs`. */
export async function fetchRun(
  address: Omit<RunAddress, 'relays'>,
  options: BoardOptions & { readonly timeoutMs: number },
): Promise<Result<RunSpec>> {
  let found: RunSpec | undefined;
  let refusal = 'no relay has it';
  const onEvent = (event: SignedEvent) => {
    const judged = toServedRun(event);
    if (judged.ok && judged.value.run === address.run) found = judged.value.spec;
    else if (!judged.ok) refusal = `what relays have does not count: ${judged.rejection.detail}`;
    return found !== undefined;
  };
  const { relays, signal, timeoutMs: waitMs } = options;
  // its author may have deleted it: members publish it too
  const filters = [runFilter(address), specFilter(address.run)];
  const { unanswered } = await relays.query(filters, { waitMs, signal, onEvent });
  if (unanswered.length > 0) refusal += `; no answer from ${unanswered.join(', ')}`;
  return found ? ok(found) : refuse('no-run', 'naddr', refusal);
}

/** Every valid run the relays have, the newest first. */
export async function listRuns({
  relays,
  signal,
  timeoutMs: waitMs,
}: BoardOptions & { readonly timeoutMs: number }): Promise<readonly PublishedRun[]> {
  const runs = new Map<string, PublishedRun>();
  const onEvent = (event: SignedEvent) => {
    const judged = toRun(event);
    if (judged.ok) runs.set(judged.value.run, judged.value);
    return runs.size >= MOST_HELD;
  };
  await relays.query([runFilter()], { waitMs, signal, onEvent });
  return [...runs.values()].sort((a, b) => b.createdAt - a.createdAt || (a.run < b.run ? -1 : 1));
}

/** The evaluation slice a spec names, checked against its root and hash; anybody may serve it. */
export async function fetchSlice(
  { root, bytes, sha256 }: Evaluation,
  author: WorkerId,
  options: BoardOptions & { readonly timeoutMs: number },
): Promise<Result<Uint8Array>> {
  const pulled = await pullOnce({ root, bytes, worker: author }, options);
  if (!pulled.ok) return refuse('no-slice', 'evaluation.root', pulled.issue.message);
  const hash = toHex(options.sha256(pulled.value));
  if (hash === sha256) return pulled;
  return refuse('wrong-slice', 'evaluation.sha256', `the text of that root hashes to ${hash}`);
}
