/** A worker's connection to the other workers of its run, over relays: signs, publishes, subscribes, and turns what comes in into heartbeats and contributions. */

import { createNotifier, type Notifier } from '../../base/async.ts';
import { sha256 } from '../../base/hash.ts';
import { type Heartbeat, isStale } from '../../run/heartbeat.ts';
import type { SignedEvent } from '../event.ts';
import { createWorkingSigner } from '../proof-of-work.ts';
import type { SubscriptionHandlers } from '../transport/feed.ts';
import type { RelaySet, Subscription } from '../transport/relay-set.ts';
import { createNativeProfile } from './native-profile.ts';
import type { CreateProfile, Profile, ProfileOptions } from './profile.ts';
import { createRelayTroubles, type RelayTroubles } from './relay-troubles.ts';
import { isPeer, MAX_WORKERS, type OpenInbox, openRoundInbox } from './round-inbox.ts';
import { createSendAgain, type SendAgain } from './send-again.ts';
import { createSignsOfLife } from './signs-of-life.ts';
import type { Gradient, Wire, WireOptions } from './wire.ts';

/** Subscribes to the run's heartbeats at once; gradients are asked for round by round. */
export function createWire(
  options: WireOptions,
  createProfile: CreateProfile = createNativeProfile,
): Wire {
  const { relays, signer } = options;
  const stop = new AbortController();
  const profileOptions = optionsOf(options, stop.signal);
  const profile = createProfile(profileOptions);
  const changed = createNotifier();
  const heartbeats = new Map<string, Heartbeat>();
  const open = new Set<OpenInbox>();
  const signs = createSignsOfLife(profileOptions, profile);

  const again = createSendAgain({ relays, send: profile.send, signal: stop.signal });
  const troubles = createRelayTroubles(relays, options.clock);
  let isKeyInUse = false;
  const onOwn = (own: Heartbeat) => {
    isKeyInUse ||= signs.isForeign(own);
  };
  const watch = { again, troubles, onOwn };
  const hearing = hearHeartbeats(options, profile, heartbeats, changed, watch);
  return {
    me: profile.worker ?? signer.publicKey,
    changed,
    heartbeats,
    get silentMs() {
      return signs.silentMs;
    },
    get isPaced() {
      return relays.status().some(({ limits }) => limits.eventsPerMinute !== undefined);
    },
    get isKeyInUse() {
      return isKeyInUse;
    },
    lookAround: () => lookAround(options, profile, stop.signal),
    sendHeartbeat(own) {
      const sending = signs.sendHeartbeat(own);
      void sending.settled.then(troubles.delivered);
      return sending;
    },
    seal: profile.seal,
    open: profile.open,
    send(sealed) {
      const sending = profile.send(sealed);
      signs.gradient(sealed, sending);
      again.sent(sealed);
      // counted at once: no relay has to bring the own gradient back
      for (const inbox of open) inbox.take(sealed.event);
      return sending;
    },
    relays: relays.own,
    troubles: troubles.lines,
    reachable: () => relays.status().flatMap(({ relay, state }) => (state === 'open' ? relay : [])),
    openRound(request) {
      const inbox: OpenInbox = openRoundInbox(request, {
        relays,
        changed,
        reader: profile.openRound(request),
        peers: options.peers,
        onHeard: (event) => profile.gradientsAreHeartbeats && refresh(heartbeats, event),
        onClose: () => open.delete(inbox),
      });
      open.add(inbox);
      return inbox;
    },
    traffic: () => trafficOf(relays.status()),
    async close() {
      stop.abort(new Error('closed'));
      hearing.close();
      profile.close();
      await relays.close();
    },
  };
}

const optionsOf = (options: WireOptions, signal: AbortSignal): ProfileOptions => ({
  ...options,
  sha256: options.sha256 ?? sha256,
  signWorked: createWorkingSigner({
    ...options,
    workFor: (kind) => options.relays.workFor(kind),
    signal,
  }),
  signal,
});

/** How long relays may take to show what they hold. */
const LOOK_MS = 3000;

async function lookAround(
  { relays, peers }: WireOptions,
  { latestFilter, roundOf, heartbeatFilter }: Profile,
  signal: AbortSignal,
): Promise<readonly Gradient[]> {
  const asked = [latestFilter ?? heartbeatFilter];
  const { events } = await relays.query(asked, { waitMs: LOOK_MS, signal });
  return events.flatMap((event): readonly Gradient[] => {
    const { pubkey: worker, created_at: createdAt } = event;
    const round = roundOf?.(event);
    return round === undefined || !isPeer(worker, peers) ? [] : [{ worker, round, createdAt }];
  });
}

const trafficOf = (status: ReturnType<RelaySet['status']>) => ({
  bytesSent: status.reduce((sum, { bytesOut }) => sum + bytesOut, 0),
  bytesReceived: status.reduce((sum, { bytesIn }) => sum + bytesIn, 0),
});

/** A worker that signs gradients is there. */
function refresh(heartbeats: Map<string, Heartbeat>, { pubkey, created_at }: SignedEvent): void {
  const held = heartbeats.get(pubkey);
  if (held && held.createdAt < created_at)
    heartbeats.set(pubkey, { ...held, createdAt: created_at });
}

/** Makes room for workers that are there. */
function forgetStale(heartbeats: Map<string, Heartbeat>, nowSeconds: number): void {
  for (const [worker, heartbeat] of heartbeats) {
    if (isStale(heartbeat, nowSeconds, 1)) heartbeats.delete(worker);
  }
}

/** Between two looks for who is stale. */
const FORGET_MS = 1000;

interface Watch {
  readonly again: SendAgain;
  readonly troubles: RelayTroubles;
  /** Hears heartbeats that the key of this worker signed. */
  onOwn(heartbeat: Heartbeat): void;
}

/** Keeps the latest heartbeat of every worker of the run, of bounded number. */
function hearHeartbeats(
  { relays, peers, clock, signer }: WireOptions,
  { heartbeatFilter, readHeartbeat }: Profile,
  heartbeats: Map<string, Heartbeat>,
  changed: Notifier,
  { again, troubles, onOwn }: Watch,
): Subscription {
  let forgotMs = Number.NEGATIVE_INFINITY;
  const hasRoom = (): boolean => {
    const nowMs = clock.now();
    // in a crowd that does not fit somebody always comes for whom there is no room
    if (heartbeats.size >= MAX_WORKERS && nowMs - forgotMs >= FORGET_MS) {
      forgotMs = nowMs;
      forgetStale(heartbeats, nowMs / 1000);
    }
    return heartbeats.size < MAX_WORKERS;
  };
  const onEvent = (event: SignedEvent, relay: string) => {
    if (event.pubkey === signer.publicKey) troubles.cameBack(relay);
    const judged = readHeartbeat(event);
    if (!judged.ok || !isPeer(judged.value.worker, peers)) return;
    if (judged.value.worker === signer.publicKey) onOwn(judged.value);
    const held = heartbeats.get(judged.value.worker);
    if (held && held.createdAt > judged.value.createdAt) return;
    if (!held && !hasRoom()) return;
    heartbeats.set(judged.value.worker, judged.value);
    changed.notify();
  };
  const { handlers } = troubles;
  const watching: SubscriptionHandlers = {
    ...handlers,
    onEvent,
    onAsked(relay) {
      handlers.onAsked(relay);
      again.connected(relay);
      changed.notify();
    },
    onLost(relay, message) {
      handlers.onLost(relay, message);
      changed.notify();
    },
  };
  return relays.subscribe([heartbeatFilter], watching, { longLived: true });
}
