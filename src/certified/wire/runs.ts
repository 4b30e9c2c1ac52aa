/**
 * Run specs on relays: events to specs and back, and the address people send each other. The address holds the run id, which is
 * the hash of the spec, so it does not matter which relay or whose event a spec came from.
 */
import { decode, naddrEncode } from 'nostr-tools/nip19';
import { run } from '../../../kinds/run.ts';
import type { Clock } from '../../base/clock.ts';
import { ConfigError } from '../../base/errors.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { expirationOf, type Lifetime } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/filter.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { accept, type Judged, reject } from '../../network/wire/judged.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { parseRunSpec } from '../../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';

/** Where a run spec is. */
export interface RunAddress {
  readonly run: Digest;
  readonly author: WorkerId;
  /** Where it was published; hints of whoever wrote the address. */
  readonly relays: readonly string[];
}

/** A spec that came from a relay. */
export interface PublishedRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
}

/** A spec is smaller than an event of 64 KiB with its tags. */
const LONGEST_SPEC = 60_000;

/** `naddr1…` of a run (NIP-19); what may be secret of its relays' addresses is left out. */
export const encodeRunAddress = ({ run: identifier, author, relays }: RunAddress): string =>
  naddrEncode({
    kind: run.kind,
    identifier,
    pubkey: author,
    relays: [...new Set(relays.map(withoutSecrets))],
  });

/** The run an `naddr1…` or `nostr:naddr1…` names; a refusal when it is anything else. */
export function decodeRunAddress(text: string): Result<RunAddress> {
  const broken = (message: string) => refuse('bad-address', 'naddr', message);
  let decoded: ReturnType<typeof decode>;
  try {
    decoded = decode(text.replace(/^nostr:/, ''));
  } catch {
    return broken('not an address, or one that was cut or mistyped');
  }
  if (decoded.type !== 'naddr') return broken(`a ${decoded.type}, not the address of an event`);
  const { kind, identifier, pubkey, relays = [] } = decoded.data;
  if (kind !== run.kind) return broken(`the address of an event of kind ${kind}, not of a run`);
  if (!/^[0-9a-f]{64}$/.test(identifier)) return broken('the address of a run without its id');
  return ok({ run: identifier, author: pubkey, relays });
}

/** Whether relays take a spec. One that names more keys is handed over as a file. */
export const isServable = (spec: RunSpec): boolean => canonicalSpec(spec).length <= LONGEST_SPEC;

/** An unsigned event with the spec. Throws a `ConfigError` when no relay would take it. */
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

/** Asks for one run, or for all there are. */
export const runFilter = (address?: Omit<RunAddress, 'relays'>): Filter =>
  address
    ? { kinds: [run.kind], authors: [address.author], '#d': [address.run] }
    : { kinds: [run.kind], '#t': ['nostrain'], limit: MOST_LISTED };

/** Relays are asked for so many at once. */
const MOST_LISTED = 500;

/** Relays are asked to keep a run for a year. */
const KEPT_SECONDS = 365 * 86_400;

/** Dates of a spec that is published now. */
export function specLifetime(clock: Clock): Lifetime {
  const createdAt = Math.floor(clock.now() / 1000);
  return { createdAt, expiresAt: createdAt + KEPT_SECONDS };
}

/** The spec that its author published, or why it does not count: what a list of runs shows. */
export function toRun(event: SignedEvent): Judged<PublishedRun> {
  const served = toServedRun(event);
  if (!served.ok || served.value.spec.author === event.pubkey) return served;
  const { author } = served.value.spec;
  return reject(event, 'worker-key-mismatch', `signed by ${event.pubkey} for ${author}`);
}

/** The spec inside a verified event, whoever serves it: for who knows the run id, which is its hash. */
export function toServedRun(event: SignedEvent): Judged<PublishedRun> {
  if (event.content.length > LONGEST_SPEC) return reject(event, 'too-large', 'a spec too long');
  const parsed = run.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const read = readCanonical(parsed.value.spec);
  if (!read.ok) return reject(event, 'malformed', read.issue.message);
  return accept({ run: parsed.value.run, spec: read.value, createdAt: event.created_at });
}

/** The spec of a text from anybody: only the canonical spelling is one. */
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
