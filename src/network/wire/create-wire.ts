/** A worker's connection to its run over relays: receives heartbeats and contributions, sends signed events. */
import { anySignal, createNotifier, type Notifier } from '../../base/async.ts';
import { sha256 } from '../../base/hash.ts';
import { type Heartbeat, isStale } from '../../run/contribution.ts';
import type { SignedEvent } from '../event.ts';
import { committedBits, createMiner, createWorkingSigner, isWorkable } from '../proof-of-work.ts';
import {
  republishMissing,
  type Sending,
  trackOutcomes,
  watchLater,
} from '../transport/delivery.ts';
import type { RelaySet, Subscription } from '../transport/relay-set.ts';
import { withoutSecrets } from '../transport/relay-urls.ts';
import type { SubscriptionHandlers } from '../transport/subscription.ts';
import { createNativeProfile } from './native-profile.ts';
import { createRelayTroubles } from './relay-troubles.ts';
import { isPeer, MAX_WORKERS, type OpenInbox, openRoundInbox } from './round-inbox.ts';
import type {
  CreateProfile,
  Gradient,
  LocalHeartbeat,
  Profile,
  ProfileOptions,
  Sealed,
  Wire,
  WireOptions,
} from './wire.ts';

/** Creates the wire and subscribes to the run's heartbeats at once; gradients are requested per round. */
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

  const resend = createResender(relays, profile.send, stop.signal);
  const troubles = createRelayTroubles(relays, options.clock);
  let isKeyInUse = false;
  const onLocalHeartbeat = (local: Heartbeat) => {
    isKeyInUse ||= signs.isForeign(local);
  };
  const watch = { resend, troubles, onLocalHeartbeat };
  const hearing = hearHeartbeats(options, profile, heartbeats, changed, watch);
  return {
    me: profile.worker ?? signer.publicKey,
    changed,
    heartbeats,
    get silentMs() {
      return signs.silentMs;
    },
    get isRateLimited() {
      return relays.status().some(({ limits }) => limits.eventsPerMinute !== undefined);
    },
    get isKeyInUse() {
      return isKeyInUse;
    },
    queryGradients: () => queryGradients(options, profile, stop.signal),
    sendHeartbeat(local) {
      const sending = signs.sendHeartbeat(local);
      void sending.settled.then(troubles.delivered);
      return sending;
    },
    seal: profile.seal,
    open: profile.open,
    send(sealed) {
      const sending = profile.send(sealed);
      signs.gradient(sealed, sending);
      resend.sent(sealed, sending);
      // counted at once, without waiting for a relay to send it back
      for (const inbox of open) inbox.take(sealed.event);
      return sending;
    },
    lacksWork({ id, sig: _, ...draft }) {
      const bits = committedBits({ id, tags: draft.tags });
      return bits < relays.workFor(draft.kind) && isWorkable(draft);
    },
    resend: resend.all,
    renew({ id, kind, created_at, tags, content }) {
      resend.forget(id);
      const nowSeconds = Math.floor(options.clock.now() / 1000);
      const later = Math.max(nowSeconds, created_at + 1);
      return profileOptions.signWorked({ kind, created_at: later, tags, content });
    },
    relays: relays.readRelays,
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

function optionsOf(options: WireOptions, signal: AbortSignal): ProfileOptions {
  const { relays, clock, onNotice, mine = createMiner(clock) } = options;
  const onWait = (bits: number, seconds: number) => {
    const asking = relays.status().filter(({ limits }) => limits.workBits > 0);
    const names = asking.map(({ relay }) => relay).join(', ');
    onNotice?.(
      `${names} requires ${bits} bits of proof of work; the update waits about ${seconds} s, ` +
        'until there is time for work again',
    );
  };
  const workFor = (kind: number) => relays.workFor(kind);
  const signWorked = createWorkingSigner({ ...options, mine, workFor, onWait, signal });
  return { ...options, sha256: options.sha256 ?? sha256, signWorked, signal };
}

const GRADIENT_QUERY_MS = 3000;

async function queryGradients(
  { relays, peers }: WireOptions,
  { latestFilter, roundOf, heartbeatFilter }: Profile,
  signal: AbortSignal,
): Promise<readonly Gradient[]> {
  const filters = [latestFilter ?? heartbeatFilter];
  const { events } = await relays.query(filters, { waitMs: GRADIENT_QUERY_MS, signal });
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

function refresh(heartbeats: Map<string, Heartbeat>, { pubkey, created_at }: SignedEvent): void {
  const latest = heartbeats.get(pubkey);
  if (latest && latest.createdAt < created_at)
    heartbeats.set(pubkey, { ...latest, createdAt: created_at });
}

function forgetStale(heartbeats: Map<string, Heartbeat>, nowSeconds: number): void {
  for (const [worker, heartbeat] of heartbeats) {
    if (isStale(heartbeat, nowSeconds, 1)) heartbeats.delete(worker);
  }
}

const FORGET_MS = 1000;

interface Watch {
  readonly resend: ReturnType<typeof createResender>;
  readonly troubles: ReturnType<typeof createRelayTroubles>;
  onLocalHeartbeat(heartbeat: Heartbeat): void;
}

/** Keeps the latest heartbeat of every worker of the run, up to MAX_WORKERS. */
function hearHeartbeats(
  { relays, peers, clock, signer }: WireOptions,
  { heartbeatFilter, readHeartbeat }: Profile,
  heartbeats: Map<string, Heartbeat>,
  changed: Notifier,
  { resend, troubles, onLocalHeartbeat }: Watch,
): Subscription {
  let forgotMs = Number.NEGATIVE_INFINITY;
  const hasCapacity = (): boolean => {
    const nowMs = clock.now();
    // if there are more workers than fit, this is false for every new one
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
    if (judged.value.worker === signer.publicKey) onLocalHeartbeat(judged.value);
    const latest = heartbeats.get(judged.value.worker);
    if (latest && latest.createdAt > judged.value.createdAt) return;
    if (!latest && !hasCapacity()) return;
    heartbeats.set(judged.value.worker, judged.value);
    changed.notify();
  };
  const { handlers } = troubles;
  const watching: SubscriptionHandlers = {
    ...handlers,
    onEvent,
    onQueried(relay) {
      handlers.onQueried(relay);
      resend.connected(relay);
      changed.notify();
    },
    onLost(relay, message) {
      handlers.onLost(relay, message);
      changed.notify();
    },
  };
  return relays.subscribe([heartbeatFilter], watching, { longLived: true });
}

/**
 * Maximum dates of own heartbeats to remember; an older heartbeat says nothing about a second process with the key.
 */
const MOST_DATES = 256;

/** Seconds by which the last heartbeat of the previous process may be dated ahead after a restart. */
const RESTART_SECONDS = 2;

function createSignsOfLife(
  { relays, signer, clock, signWorked, signal, advertise = [] }: ProfileOptions,
  { worker, advertised, buildHeartbeat, capabilities, gradientsAreHeartbeats }: Profile,
) {
  let lastMs = clock.now();
  let lastHeartbeatSeconds = 0;
  let dates: readonly number[] = [];
  let gradientsInLine = 0;
  let inLine = new AbortController();
  /** Whether relays should have a heartbeat of this worker. */
  let isKnown = false;

  return {
    /** Sends a heartbeat. If it is still queued when the next heartbeat or gradient is sent, that one replaces it. */
    sendHeartbeat(local: LocalHeartbeat): Sending {
      inLine.abort(new Error('a newer heartbeat is on its way'));
      inLine = new AbortController();
      const { signal: replaced } = inLine;
      lastMs = clock.now();
      // relays keep the newest heartbeat by date, so two of one worker must never share a second
      lastHeartbeatSeconds = Math.max(Math.floor(lastMs / 1000), lastHeartbeatSeconds + 1);
      dates = [...dates, lastHeartbeatSeconds].slice(-MOST_DATES);
      const heartbeat: Heartbeat = {
        ...local,
        worker: worker ?? signer.publicKey,
        capabilities,
        relays: [...new Set((advertised ?? advertise).map(withoutSecrets))],
        createdAt: lastHeartbeatSeconds,
      };
      const { signal: either, release } = anySignal(signal, replaced);
      const { taken, ...sending } = watchLater(
        signWorked(buildHeartbeat(heartbeat), replaced).then((event) =>
          trackOutcomes(event, relays.send(event, { signal: either }), relays),
        ),
      );
      void sending.settled.then(release);
      const reported = taken.then((isTaken) => {
        isKnown ||= isTaken;
        return isTaken || replaced.aborted;
      });
      return { ...sending, taken: reported };
    },
    gradient({ payload }: Sealed, { taken }: Sending): void {
      if (!gradientsAreHeartbeats) return;
      // a payload in chunks is still queued behind them, so heartbeats continue meanwhile
      const isInLine = payload === undefined;
      if (isInLine) gradientsInLine++;
      if (isInLine && isKnown) inLine.abort(new Error('the gradient replaces this heartbeat'));
      void taken.then((isTaken) => {
        if (isInLine) gradientsInLine--;
        if (isTaken) lastMs = clock.now();
      });
    },
    /**
     * Reports whether another process sent this heartbeat with this key: it is newer than our first one, and not ours.
     */
    isForeign({ worker: key, createdAt, leaving }: Heartbeat): boolean {
      // a worker whose name is not its key may share the key
      const [oldest] = dates;
      if (worker !== undefined || key !== signer.publicKey || oldest === undefined) return false;
      return !leaving && createdAt > oldest + RESTART_SECONDS && !dates.includes(createdAt);
    },
    /** Milliseconds since the last heartbeat; 0 while a gradient that replaces one is queued. */
    get silentMs(): number {
      return gradientsInLine > 0 ? 0 : clock.now() - lastMs;
    },
  };
}

/** Number of gradients to resend: peers are at most one round behind a worker that they wait for. */
const GRADIENTS_KEPT = 2;

/**
 * Resends the latest gradients to a relay that reconnects: it may have lost them, and late workers would wait for ever.
 */
function createResender(relays: RelaySet, send: (sealed: Sealed) => Sending, signal: AbortSignal) {
  const known = new Set<string>();
  const resending = new Set<string>();
  /** Gradients on their way, by event id. Another upload waits for the end of the one before, or might abort it. */
  const underWay = new Map<string, Promise<unknown>>();
  let latest: readonly Sealed[] = [];

  async function sendMissing(relay: string): Promise<void> {
    const sealed = new Map(latest.map((one) => [one.event.id, one]));
    const events = [...sealed.values()].map(({ event }) => event);
    await republishMissing(relays, relay, events, { signal }, async (event) => {
      const one = sealed.get(event.id)!;
      if (!latest.includes(one)) return;
      if (!one.payload) return relays.publish(event, { only: [relay], signal });
      await underWay.get(event.id);
      signal.throwIfAborted();
      return watch(one, send(one));
    });
  }

  function watch({ event }: Sealed, { settled }: Sending): Promise<unknown> {
    underWay.set(event.id, settled);
    return settled.finally(() => underWay.get(event.id) === settled && underWay.delete(event.id));
  }

  /** One check at a time per relay, so that a relay that reconnects often is not flooded. Never rejects. */
  async function missing(relay: string): Promise<void> {
    if (latest.length === 0 || resending.has(relay)) return;
    resending.add(relay);
    // rejects if closed meanwhile
    await sendMissing(relay).catch(() => undefined);
    resending.delete(relay);
  }

  return {
    /** Updates that are on their way are not sent again. */
    all: async () => underWay.size === 0 && Promise.all(relays.readRelays.map(missing)),
    sent(sealed: Sealed, sending: Sending): void {
      void watch(sealed, sending);
      latest = [...latest.filter(({ event }) => event.id !== sealed.event.id), sealed].slice(
        -GRADIENTS_KEPT,
      );
    },
    /** A gradient that was signed again is not resent: it would count under an id that the disk does not have. */
    forget(id: string): void {
      latest = latest.filter(({ event }) => event.id !== id);
    },
    /** Called when a relay is queried for the run's events: on connecting, and after each reconnect. */
    connected(relay: string): void {
      const isBack = known.has(relay);
      known.add(relay);
      if (isBack) void missing(relay);
    },
  };
}
