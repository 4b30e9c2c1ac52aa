/**
 * Run specs on relays: converts specs to events and back, encodes addresses, publishes, fetches and lists runs. An
 * address has the run id, which is the hash of the spec, so any relay and any author may serve it.
 */
import { decode, naddrEncode } from 'nostr-tools/nip19';
import { chunk } from '../../../kinds/chunk.ts';
import { run, run as runKind } from '../../../kinds/run.ts';
import { snapshot } from '../../../kinds/snapshot.ts';
import { type Clock, within } from '../../base/async.ts';
import { toHex } from '../../base/bytes.ts';
import { ConfigError, ok, type Result, refuse } from '../../base/errors.ts';
import { Attachments } from '../../network/attachments/attachments.ts';
import type { RelaySession } from '../../network/attachments/relay-chunks.ts';
import { expirationOf, type Lifetime } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import type { Delivery } from '../../network/transport/delivery.ts';
import type { Filter } from '../../network/transport/frames.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { accept, type Judged, reject } from '../../network/wire/judged.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { parseRunSpec } from '../../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import type { Evaluation } from '../../run/spec/spec-table.ts';

export interface RunAddress {
  readonly run: Digest;
  readonly author: WorkerId;
  /** Relays that may have the spec, as the creator of the address knew them. */
  readonly relays: readonly string[];
}

export interface PublishedRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  /** Date of the event in Unix seconds. */
  readonly createdAt: number;
}

/** Maximum characters of a published spec, so that it fits in an event of 64 KiB with its tags. */
const LONGEST_SPEC = 60_000;

/** Returns the `naddr1…` address of a run (NIP-19), without secrets in relay URLs. */
export const encodeRunAddress = ({ run: identifier, author, relays }: RunAddress): string =>
  naddrEncode({
    kind: run.kind,
    identifier,
    pubkey: author,
    relays: [...new Set(relays.map(withoutSecrets))],
  });

/** Parses an `naddr1…` or `nostr:naddr1…` address of a run; refuses any other text. */
export function decodeRunAddress(text: string): Result<RunAddress> {
  const broken = (message: string) => refuse('bad-address', 'naddr', message);
  let decoded: ReturnType<typeof decode>;
  try {
    decoded = decode(text.replace(/^nostr:/, ''));
  } catch {
    return broken('not an address, or it was cut off or mistyped');
  }
  if (decoded.type !== 'naddr') return broken(`a ${decoded.type}, not the address of an event`);
  const { kind, identifier, pubkey, relays = [] } = decoded.data;
  if (kind !== run.kind) return broken(`the address of an event of kind ${kind}, not of a run`);
  if (!/^[0-9a-f]{64}$/.test(identifier)) return broken('the address of a run without its id');
  return ok({ run: identifier, author: pubkey, relays });
}

/** Reports whether a spec fits in an event. A larger one is passed on as a file. */
export const isServable = (spec: RunSpec): boolean => canonicalSpec(spec).length <= LONGEST_SPEC;

/** Builds an unsigned event with the spec. Throws a ConfigError (`spec/too-large`) if it does not fit in an event. */
export function buildRun(spec: RunSpec, lifetime: Lifetime): EventDraft {
  const text = canonicalSpec(spec);
  if (text.length > LONGEST_SPEC) {
    throw new ConfigError('spec/too-large', `the spec has ${text.length} characters`, {
      hint: `relays take ${LONGEST_SPEC}: name fewer founders and invited keys, or send the file`,
    });
  }
  const id = runIdOf(spec);
  const expiration = expirationOf(lifetime);
  return run.build({ run: id, scope: [id], expiration, spec: text }, lifetime.createdAt);
}

/** Returns a filter for one run, or for all runs. */
const runFilter = (address?: Omit<RunAddress, 'relays'>): Filter =>
  address
    ? { kinds: [run.kind], authors: [address.author], '#d': [address.run] }
    : { kinds: [run.kind], '#t': ['nostrain'], limit: MOST_LISTED };

/** Maximum runs requested in one query. */
const MOST_LISTED = 500;

const KEPT_SECONDS = 365 * 86_400;

export function specLifetime(clock: Clock): Lifetime {
  const createdAt = Math.floor(clock.now() / 1000);
  return { createdAt, expiresAt: createdAt + KEPT_SECONDS };
}

/** Reads a run for a list of runs: the event must be signed by the author of the spec. */
export function toRun(event: SignedEvent): Judged<PublishedRun> {
  const served = toServedRun(event);
  if (!served.ok || served.value.spec.author === event.pubkey) return served;
  const { author } = served.value.spec;
  return reject(event, 'worker-key-mismatch', `signed by ${event.pubkey} for ${author}`);
}

/** Reads a run by any publisher, for readers that know the run id, which is the hash of the spec. */
export function toServedRun(event: SignedEvent): Judged<PublishedRun> {
  if (event.content.length > LONGEST_SPEC)
    return reject(event, 'too-large', 'the spec is too long');
  const parsed = run.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const read = readCanonical(parsed.value.spec);
  if (!read.ok) return reject(event, 'malformed', read.issue.message);
  return accept({ run: parsed.value.run, spec: read.value, createdAt: event.created_at });
}

/** Parses an untrusted spec; refuses text that is not in canonical form. */
export function readCanonical(text: string): Result<RunSpec> {
  let spec: RunSpec;
  try {
    spec = parseRunSpec(text);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return refuse('bad-spec', String(error.data?.at ?? 'spec'), error.message);
  }
  return canonicalSpec(spec) === text
    ? ok(spec)
    : refuse('not-canonical', 'spec', 'the spec is not in its canonical text');
}

/** Maximum runs in a list. */
const MAX_LISTED = 500;

/** Time for the other relays once one has taken everything. */
const OTHERS_MS = 8000;

/**
 * Publishes the evaluation slice in chunks, then the spec. A relay counts as accepting if it took both. Stops waiting
 * for silent relays once another has everything.
 */
export async function publishRun(
  spec: RunSpec,
  slice: Uint8Array | undefined,
  session: RelaySession & { sign(draft: EventDraft): SignedEvent },
): Promise<Delivery> {
  const { clock, signal, sign } = session;
  const lifetime = specLifetime(clock);
  const event = sign(buildRun(spec, lifetime));
  const attachments = slice ? [{ payload: slice }] : [];
  const slow = new AbortController();
  const { taken, settled } = new Attachments(session).publish(event, attachments, {
    sign,
    lifetime,
    signal: AbortSignal.any([signal, slow.signal]),
  });
  if (await taken) await within(settled, OTHERS_MS, clock, signal);
  slow.abort(new Error('other relays have it'));
  return settled;
}

/**
 * Fetches the spec of a run from any publisher; refuses (`no-run`) with the reason if none arrives within `timeoutMs`.
 */
export async function fetchRun(
  address: Omit<RunAddress, 'relays'>,
  options: RelaySession & { readonly timeoutMs: number },
): Promise<Result<RunSpec>> {
  let spec: RunSpec | undefined;
  let refusal = 'no relay has it';
  const onEvent = (event: SignedEvent) => {
    const judged = toServedRun(event);
    if (judged.ok && judged.value.run === address.run) spec = judged.value.spec;
    else if (!judged.ok) refusal = `the events on relays are invalid: ${judged.rejection.detail}`;
    return spec !== undefined;
  };
  const { relays, signal, timeoutMs: waitMs } = options;
  // members publish it too, in case its author deleted it
  const filters = [runFilter(address), specFilter(address.run)];
  const { unanswered } = await relays.query(filters, { waitMs, signal, onEvent });
  if (unanswered.length > 0) refusal += `; no answer from ${unanswered.join(', ')}`;
  return spec ? ok(spec) : refuse('no-run', 'naddr', refusal);
}

/** Returns all valid runs on the relays, newest first. */
export async function listRuns({
  relays,
  signal,
  timeoutMs: waitMs,
}: RelaySession & { readonly timeoutMs: number }): Promise<readonly PublishedRun[]> {
  const runs = new Map<string, PublishedRun>();
  const onEvent = (event: SignedEvent) => {
    const judged = toRun(event);
    if (judged.ok) runs.set(judged.value.run, judged.value);
    return runs.size >= MAX_LISTED;
  };
  await relays.query([runFilter()], { waitMs, signal, onEvent });
  return [...runs.values()].sort((a, b) => b.createdAt - a.createdAt || (a.run < b.run ? -1 : 1));
}

/** Fetches the evaluation slice of a spec from any publisher and checks its root and hash. */
export async function fetchSlice(
  { root, bytes, sha256 }: Evaluation,
  author: WorkerId,
  options: RelaySession & { readonly timeoutMs: number },
): Promise<Result<Uint8Array>> {
  const pulled = await new Attachments(options).pullOnce({ root, bytes, worker: author }, options);
  if (!pulled.ok) return refuse('no-slice', 'evaluation.root', pulled.issue.message);
  const hash = toHex(options.sha256(pulled.value));
  if (hash === sha256) return pulled;
  return refuse('wrong-slice', 'evaluation.sha256', `the text of that root hashes to ${hash}`);
}

/** Returns a filter for the spec of a run by any publisher. */
export const specFilter = (run: Digest): Filter => ({ kinds: [runKind.kind], '#d': [run] });

/** Returns a filter for all chunks of these payloads and bodies by any publisher. */
export const chunksFilter = (roots: readonly Digest[]): Filter => ({
  kinds: [chunk.kind],
  '#x': roots,
});

/**
 * Removes duplicates and sorts: specs and snapshots first, then by time and id. The same events always give the same
 * file.
 */
export function archiveOrder(events: readonly SignedEvent[]): readonly SignedEvent[] {
  const once = [...new Map(events.map((event) => [event.id, event])).values()];
  return once.sort(
    (a, b) => rank(a) - rank(b) || a.created_at - b.created_at || (a.id < b.id ? -1 : 1),
  );
}

const rank = ({ kind }: SignedEvent): number => {
  const first: readonly number[] = [runKind.kind, snapshot.kind];
  return first.includes(kind) ? first.indexOf(kind) : first.length;
};
