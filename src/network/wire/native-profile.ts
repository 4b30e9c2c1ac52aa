/**
 * Profile `nostrain/1`: a manifest (7810) per worker and round, the payload inside it or in chunks (7811) that go before it,
 * presence (37811) between them. Nothing here is larger than 64 KiB, whatever the model.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { manifest } from '../../../kinds/manifest.ts';
import { presence } from '../../../kinds/presence.ts';
import { fromBase64 } from '../../base/bytes.ts';
import type { Contribution } from '../../run/contribution.ts';
import { createPuller, type Pull, type Puller } from '../attachments/pull.ts';
import type { SignedEvent } from '../event.ts';
import { accept, codecReason, type Judged, refusal } from './judged.ts';
import {
  buildManifest,
  judgePayload,
  type Manifest,
  manifestFilter,
  toManifest,
} from './manifests.ts';
import { createNativeSending, type NativeSending } from './native-sending.ts';
import { createPacker, type Packer } from './packer.ts';
import { buildPresence, toPresence } from './presences.ts';
import {
  contextOf,
  type Profile,
  type ProfileOptions,
  type Reading,
  type RoundReader,
} from './profile.ts';
import type { RoundRequest } from './wire.ts';

/** How long relays are asked to keep payloads. */
const KEPT_SECONDS = 7 * 86_400;
/** Manifests that show where a run is. */
const LATEST = 20;

export function createNativeProfile(options: ProfileOptions): Profile {
  const { run, signer, clock, stripe, sha256, signWorked } = options;
  const packer = createPacker(options);
  const sending = createNativeSending(options);
  const puller = createPuller(options);
  return {
    heartbeatFilter: { kinds: [presence.kind], '#s': [run] },
    latestFilter: { ...manifestFilter(run), limit: LATEST },
    roundOf: roundIn,
    capabilities: ['manifest'],
    gradientsAreHeartbeats: true,
    buildHeartbeat: (heartbeat) => buildPresence(run, heartbeat),
    readHeartbeat: (event) => toPresence(event, { run, nowSeconds: clock.now() / 1000 }),
    async seal({ delta, assignment, ...own }) {
      const place = { round: own.round, worker: signer.publicKey, assignment };
      const { payload, codec, sent } = packer.pack(delta, place);
      const createdAt = Math.floor(clock.now() / 1000);
      const packing = { createdAt, expiresAt: createdAt + KEPT_SECONDS, stripe };
      const said = { run, codec, roster: assignment.digest, ...own };
      const { draft, eventBytes } = buildManifest(said, payload, packing, sha256);
      const event = await signWorked(draft);
      const beside = payload.length <= CHUNK_BYTES ? undefined : payload;
      return { event, payload: beside, sent, payloadBytes: payload.length, eventBytes };
    },
    open({ event, payload }, place) {
      const said = manifest.parse(event);
      const bytes = payload ?? (said.ok ? fromBase64(said.value.payload ?? '') : undefined);
      if (!said.ok || !bytes) throw new TypeError('not a manifest of ours');
      const opened = packer.open(bytes, said.value.codec, { ...place, worker: signer.publicKey });
      if (!opened.ok) throw new TypeError(`not a payload of ours: ${opened.issue.message}`);
      return opened.value;
    },
    send: sending.send,
    openRound: (request) => openReader(request, options, { packer, sending, puller }),
    close() {
      sending.close();
      puller.close();
    },
  };
}

function roundIn(event: SignedEvent): number | undefined {
  const said = manifest.parse(event);
  return said.ok ? said.value.round : undefined;
}

function openReader(
  request: RoundRequest,
  options: ProfileOptions,
  {
    packer,
    sending,
    puller,
  }: { readonly packer: Packer; readonly sending: NativeSending; readonly puller: Puller },
): RoundReader {
  const { run, clock, sha256, maxContainerBytes } = options;
  const { assignment } = request;
  const over = new AbortController();

  /** The contribution inside a payload that is here whole and is what the manifest names, or why it does not count. */
  function open(said: Manifest, payload: Uint8Array, eventBytes: number): Judged<Contribution> {
    const { worker, eventId, round, base, examples, steps, createdAt } = said;
    const opened = packer.open(payload, said.codec, { round, worker, assignment });
    if (!opened.ok) {
      const { code, at, message } = opened.issue;
      return refusal(worker, codecReason(code), `${code} at ${at}: ${message}`);
    }
    return accept({
      ...{ worker, eventId, round, base, examples, steps, createdAt },
      delta: opened.value,
      payloadBytes: payload.length,
      eventBytes,
    });
  }

  async function pulled(said: Manifest, done: Pull['done']): Promise<Judged<Contribution>> {
    const found = await done;
    if (!found) {
      return refusal(said.worker, 'payload-missing', 'its chunks do not make up what it names');
    }
    const untrue = judgePayload(said, found.payload, sha256);
    if (untrue) return { ok: false, rejection: untrue };
    return open(said, found.payload, said.eventBytes + found.eventBytes);
  }

  return {
    filter: manifestFilter(run, request.anyBase ? undefined : request.round),
    roundOf: roundIn,
    read(event, round): Reading {
      const context = contextOf(request, round, clock.now());
      const limits = { run, maxPayloadBytes: maxContainerBytes };
      const judged = toManifest(event, { ...context, ...limits }, sha256);
      if (!judged.ok) return judged;
      const said = judged.value;
      if (said.roster !== assignment.digest) {
        const ours = assignment.digest ?? 'no roster';
        return refusal(said.worker, 'other-roster', `made for ${said.roster}, ours is ${ours}`);
      }
      if (said.payload) return open(said, said.payload, said.eventBytes);
      const own = sending.own(said.eventId);
      if (own?.payload) return open(said, own.payload, own.eventBytes);
      const { done, progress, stop } = puller.pull(said, { signal: over.signal });
      return { worker: said.worker, done: pulled(said, done), progress, stop };
    },
    close: () => over.abort(new Error('closed')),
  };
}
