/**
 * One key in a lobby: announces itself, and follows the lobby and its attendees on the relays of the join line. What
 * others send is bounded: one event per key, and with a secret only attendees that prove to know it.
 */
import { type Clock, createNotifier } from '../base/async.ts';
import type { SignedEvent, Signer } from '../network/event.ts';
import type { RelaySet, Subscription } from '../network/transport/relay-set.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Invitation } from './line.ts';
import {
  type Attendee,
  buildAttendee,
  buildLobby,
  type Dated,
  INTERVAL_SECONDS,
  type Lobby,
  lobbyFilters,
  lockOf,
  proofOf,
  readAttendee,
  readLobby,
} from './lobby.ts';

/** A person in the lobby. */
export interface Person {
  readonly key: WorkerId;
  readonly name: string | undefined;
  readonly isHost: boolean;
  readonly isMe: boolean;
}

/** What a person needs to follow a lobby. */
export interface LobbyPorts {
  readonly relays: Pick<RelaySet, 'subscribe' | 'send'>;
  readonly signer: Signer;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A person is away after missing two announcements and some seconds. */
const AWAY_MS = 2500 * INTERVAL_SECONDS;
/** Maximum attendees remembered; a lobby that is full takes no other keys. */
const MOST_ATTENDEES = 256;
/** An event dated further ahead of this clock does not count. */
const MOST_AHEAD_SECONDS = 900;

interface Seen<T> extends Dated<T> {
  /** When it was sent, by this clock. */
  readonly atMs: number;
}

/** A lobby as one key sees it over the relays: its description, and the people in it. */
export class OpenLobby {
  /** Notifies about changes of the lobby: its description, its attendees, and who is present. */
  readonly changed = createNotifier();
  readonly #invitation: Invitation;
  readonly #ports: LobbyPorts;
  readonly #me: string | undefined;
  readonly #attendees = new Map<WorkerId, Seen<Attendee>>();
  readonly #subscription: Subscription;
  #lobby: Seen<Lobby> | undefined;
  #announced: Lobby | undefined;
  #lastSeconds = 0;
  #isCaughtUp = false;

  /** Follows the lobby of this invitation; `name` is what others call this person. */
  constructor(invitation: Invitation, ports: LobbyPorts, name: string | undefined) {
    this.#invitation = invitation;
    this.#ports = ports;
    this.#me = name;
    this.#subscription = ports.relays.subscribe(lobbyFilters(invitation), {
      onEvent: (event) => this.#take(event),
      onCaughtUp: () => {
        this.#isCaughtUp = true;
        this.changed.notify();
      },
    });
  }

  /** The lobby as its host last described it. */
  get lobby(): Lobby | undefined {
    return this.#lobby?.value;
  }

  /** Whether a relay has sent all it has. */
  get isCaughtUp(): boolean {
    return this.#isCaughtUp;
  }

  /** Whether the host has announced the lobby lately. */
  get isHostPresent(): boolean {
    return this.#isHost || (this.#lobby !== undefined && this.#isFresh(this.#lobby));
  }

  /** Returns whether the secret of the invitation opens this lobby; undefined while the lobby is not known. */
  get isOpenToMe(): boolean | undefined {
    const { secret } = this.#invitation;
    const lobby = this.lobby;
    if (lobby === undefined) return undefined;
    return lobby.lock === (secret === undefined ? undefined : lockOf(secret, this.#invitation));
  }

  /** Returns the people who are in the lobby now, the host first, then by arrival. */
  present(): readonly Person[] {
    const { host } = this.#invitation;
    const me = this.#ports.signer.publicKey;
    const attendees = [...this.#attendees.values()]
      .filter((seen) => !seen.value.isLeaving && this.#isFresh(seen))
      .map(({ value }) => value.key);
    const keys = new Set([...(this.isHostPresent ? [host] : []), ...attendees, me]);
    return [...keys].map((key) => ({
      key,
      name: this.nameOf(key),
      isHost: key === host,
      isMe: key === me,
    }));
  }

  /** Returns every attendee that may take part, also those that are away now. */
  attendees(): readonly WorkerId[] {
    return [...this.#attendees.keys()];
  }

  /** Returns what the person with this key is called, if known. */
  nameOf(key: WorkerId): string | undefined {
    if (key === this.#ports.signer.publicKey) return this.#me;
    const { lobby } = this;
    if (key === this.#invitation.host && lobby?.by !== undefined) return lobby.by;
    return this.#attendees.get(key)?.value.name ?? lobby?.names.get(key);
  }

  /** Describes the lobby anew; for its host. */
  describe(lobby: Lobby): Promise<boolean> {
    this.#announced = lobby;
    return this.announce();
  }

  /** Announces this person, or the lobby of its host. Resolves with whether a relay accepted it. */
  async announce(isLeaving = false): Promise<boolean> {
    const { signer, clock, relays } = this.#ports;
    // a person who leaves has stopped everything else
    const signal = isLeaving ? undefined : this.#ports.signal;
    const now = Math.floor(clock.now() / 1000);
    // of two events of one second, relays keep the one with the lower id
    this.#lastSeconds = Math.max(now, this.#lastSeconds + 1);
    const draft = this.#draft(isLeaving, this.#lastSeconds);
    if (draft === undefined) return false;
    const sent = relays.send(signer.sign(draft), { signal });
    const outcomes = await Promise.all(
      sent.map((each) => each.then(({ status }) => status === 'accepted').catch(() => false)),
    );
    return outcomes.includes(true);
  }

  /** Announces this person at the interval until the signal aborts; also notifies, as others may have gone. */
  async stay(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.announce();
      this.changed.notify();
      await this.#ports.clock.sleep(1000 * INTERVAL_SECONDS, signal).catch(() => undefined);
    }
  }

  close(): void {
    this.#subscription.close();
  }

  get #isHost(): boolean {
    return this.#ports.signer.publicKey === this.#invitation.host;
  }

  #draft(isLeaving: boolean, createdAt: number) {
    if (this.#isHost) {
      return isLeaving || !this.#announced ? undefined : buildLobby(this.#announced, createdAt);
    }
    const { secret } = this.#invitation;
    const proof = secret && proofOf(secret, this.#invitation, this.#ports.signer.publicKey);
    return buildAttendee(this.#invitation, { name: this.#me, proof, isLeaving }, createdAt);
  }

  #isFresh({ atMs }: Seen<unknown>): boolean {
    return this.#ports.clock.now() - atMs < AWAY_MS;
  }

  #take(event: SignedEvent): void {
    const nowMs = this.#ports.clock.now();
    if (event.created_at > nowMs / 1000 + MOST_AHEAD_SECONDS) return;
    // a live event was sent now, whatever the clock of its author shows
    const atMs = this.#isCaughtUp ? nowMs : Math.min(nowMs, 1000 * event.created_at);
    const lobby = readLobby(event);
    if (lobby.ok) this.#takeLobby({ ...lobby.value, atMs });
    const attendee = readAttendee(event, this.#invitation, this.#invitation.secret);
    if (attendee.ok) this.#takeAttendee({ ...attendee.value, atMs });
  }

  #takeLobby(seen: Seen<Lobby>): void {
    const { host, name } = this.#invitation;
    if (seen.value.host !== host || seen.value.name !== name) return;
    if (this.#lobby && seen.createdAt <= this.#lobby.createdAt) return;
    this.#lobby = seen;
    this.#lastSeconds = Math.max(this.#lastSeconds, this.#isHost ? seen.createdAt : 0);
    this.changed.notify();
  }

  #takeAttendee(seen: Seen<Attendee>): void {
    const { key } = seen.value;
    const before = this.#attendees.get(key);
    if (before && seen.createdAt <= before.createdAt) return;
    const isOther = key !== this.#invitation.host && key !== this.#ports.signer.publicKey;
    if (!isOther || (!before && this.#attendees.size >= MOST_ATTENDEES)) return;
    this.#attendees.set(key, seen);
    this.changed.notify();
  }
}
