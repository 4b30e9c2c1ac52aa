/**
 * Stake snapshots for workers and commands: reads them from a file or from relays by id, derives the next ones from
 * their chain, and publishes them under a temporary key.
 */

import { systemClock } from '../../base/async.ts';
import { RelayError } from '../../base/errors.ts';
import { deriveNext, type RefreshPort } from '../../certified/features/stakes.ts';
import { buildSnapshot, findSnapshot, publishSnapshot } from '../../certified/wire/snapshots.ts';
import type { ChainAccess } from '../../chain/evm/blocks.ts';
import { createEventSource, type FindSnapshot, sourceOf } from '../../chain/stake-documents.ts';
import { type Lifetime, planChunks } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { passingSigner } from '../../node/net/relays.ts';
import type { Digest } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { parseStakeJson, type StakeSnapshot, snapshotId } from '../../run/stake/stake-snapshot.ts';
import { orRefuse, readText } from './files.ts';
import { withRelays } from './with-relays.ts';

export interface StakeOptions {
  /** Snapshot from a file; others are fetched from relays by id. */
  readonly given?: StakeSnapshot | undefined;
  /** How this worker reaches the chain of the stakes; absent if it does not. */
  readonly chain?: Omit<ChainAccess, 'chain'> | undefined;
}

export const readStakeFile = async (
  file: string | undefined,
): Promise<StakeSnapshot | undefined> =>
  file === undefined ? undefined : orRefuse(file, parseStakeJson(await readText(file)));

export function createRefreshPort(
  spec: RunSpec,
  { given, chain: access }: StakeOptions,
  relays: readonly string[],
  signal: AbortSignal,
): RefreshPort {
  const find = async (id: Digest): Promise<StakeSnapshot> =>
    given !== undefined && snapshotId(given) === id
      ? given
      : createEventSource(id, findOver(relays)).snapshot(0, signal);
  const port: RefreshPort = {
    find,
    publish: (snapshot) => publishOver(relays, snapshot, signal),
  };
  if (access === undefined) return port;
  const derive = deriveNext(spec, find, (document, { epoch, ...how }) =>
    sourceOf(document, { access, ...how }).snapshot(epoch, signal),
  );
  return derive ? { ...port, derive } : port;
}

const OPEN_MS = 10_000;
const KEPT_SECONDS = 90 * 86_400;

const connection = {
  openTimeoutMs: OPEN_MS,
  retry: { maxAttempts: 2, initialMs: 250, maxMs: 2000, multiplier: 2, jitter: 'full' },
} as const;

export const findOver =
  (urls: readonly string[]): FindSnapshot =>
  (id, signal) =>
    withRelays(urls, { connection, signal }, (relaySession) => findSnapshot(id, relaySession));

const snapshotLifetime = (): Lifetime => {
  const createdAt = Math.floor(systemClock.now() / 1000);
  return { createdAt, expiresAt: createdAt + KEPT_SECONDS };
};

/**
 * Returns a snapshot as events, its chunks first. A snapshot is identified by its content, so a temporary key signs it.
 */
export function toEvents(snapshot: StakeSnapshot): readonly SignedEvent[] {
  const signer = passingSigner();
  const lifetime = snapshotLifetime();
  const { draft, payload } = buildSnapshot(snapshot, lifetime, nativeSha256);
  const plan = payload && planChunks(payload, lifetime, nativeSha256);
  const chunks = Array.from({ length: plan?.count ?? 0 }, (_, index) => plan!.draft(index));
  return [...chunks, draft].map((each) => signer.sign(each));
}

/** Publishes a snapshot. Throws `relay/refused` if no relay accepts all of it. */
export const publishOver = (
  urls: readonly string[],
  snapshot: StakeSnapshot,
  signal: AbortSignal,
): Promise<void> => {
  const signer = passingSigner();
  return withRelays(urls, { connection, signer, signal }, async (relaySession) => {
    const sign = (draft: EventDraft) => signer.sign(draft);
    const words = await publishSnapshot(snapshot, {
      ...relaySession,
      lifetime: snapshotLifetime(),
      sign,
    });
    if (words === undefined) return;
    throw new RelayError('relay/refused', `no relay accepted the snapshot: ${words}`, {
      hint: 'use another --relay, or send the snapshot as a file',
    });
  });
};
