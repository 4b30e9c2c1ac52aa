/** Lobbies as events: builds and reads the lobby of a host and the presence of its attendees. */
import { displayName } from '../../kinds/_tags.ts';
import { attendee as attendeeKind } from '../../kinds/attendee.ts';
import { lobby as lobbyKind } from '../../kinds/lobby.ts';
import { toHex } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { hashFields } from '../base/hash.ts';
import type { EventDraft, SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

/** A lobby: its host and its name. */
export interface LobbyAddress {
  readonly host: WorkerId;
  readonly name: string;
}

/** Training data that attendees download. */
export interface LobbyText {
  /** SHA-256 of its manifest. */
  readonly manifest: Digest;
  readonly bytes: number;
  readonly name: string;
}

/** A lobby as its host describes it. */
export interface Lobby extends LobbyAddress {
  readonly people: number;
  /** Name of the host. */
  readonly by?: string | undefined;
  /** Digest of the secret; undefined if every key that knows the address counts. */
  readonly lock?: Digest | undefined;
  /** Model and data, for people. */
  readonly what: string;
  readonly text?: LobbyText | undefined;
  /** The run, once it has started. */
  readonly run?: Digest | undefined;
  /** Names of founders, by key. */
  readonly names: ReadonlyMap<WorkerId, string>;
}

/** An attendee as it describes itself. */
export interface Attendee {
  readonly key: WorkerId;
  readonly name?: string | undefined;
  readonly proof?: Digest | undefined;
  readonly isLeaving: boolean;
}

/** A value with the date of its event, in Unix seconds. */
export interface Dated<T> {
  readonly value: T;
  readonly createdAt: number;
}

/** Seconds between two announcements of a lobby or an attendee. */
export const INTERVAL_SECONDS = 30;
/** A lobby without a run expires after a week; with a run it lets in newcomers for longer. */
const WAITING_SECONDS = 7 * 86_400;
const STARTED_SECONDS = 60 * 86_400;
/** A member of the run that is online for a moment within this time lets the attendee in. */
const ATTENDEE_SECONDS = 86_400;

/** Reports whether a person or a thing can be called this in a lobby. */
export const isDisplayName = (text: string): boolean => displayName.read(text) !== undefined;

/** Reports whether a lobby can have this name. */
export const isLobbyName = (text: string): boolean =>
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/.test(text);

/** Returns the digest by which a joiner recognizes the secret of a lobby. */
export const lockOf = (secret: string, { host, name }: LobbyAddress): Digest =>
  toHex(hashFields('nostrain/lobby/1', secret, host, name));

/** Returns the proof that a key knows the secret of a lobby. */
export const proofOf = (secret: string, lobby: LobbyAddress, key: WorkerId): Digest =>
  toHex(hashFields('nostrain/attendee/1', secret, slotOf(lobby), key));

/** Returns the lobby as attendees name it. */
const slotOf = ({ host, name }: LobbyAddress): string => `${host}:${name}`;

/** Returns the unsigned event of a lobby. */
export function buildLobby({ name, text, names, ...lobby }: Lobby, createdAt: number): EventDraft {
  const { people, by, lock, what, run } = lobby;
  const listed = [...names].map(([key, called]) => `${key} ${called}`);
  return lobbyKind.build(
    {
      lobby: name,
      people,
      by,
      lock,
      what,
      text: text?.manifest,
      textBytes: text?.bytes,
      textName: text?.name,
      run,
      names: run === undefined || listed.length === 0 ? undefined : listed,
      expiration: createdAt + (run === undefined ? WAITING_SECONDS : STARTED_SECONDS),
    },
    createdAt,
  );
}

/** Returns the filter for a lobby and all its attendees. */
export const lobbyFilters = (lobby: LobbyAddress): readonly Filter[] => [
  lobbyKind.filter({ lobby: lobby.name }, { authors: [lobby.host] }),
  attendeeKind.filter({ lobby: slotOf(lobby) }),
];

/** Returns the filter for all lobbies of this name. */
export const namesakeFilter = (name: string): Filter => lobbyKind.filter({ lobby: name });

/** Reads the event of a lobby; refuses one that is not valid. */
export function readLobby(event: SignedEvent): Result<Dated<Lobby>> {
  const parsed = lobbyKind.parse(event);
  if (!parsed.ok) return parsed;
  const { lobby: name, text, textBytes, textName, names = [], ...rest } = parsed.value;
  const { people, by, lock, what, run } = rest;
  const value: Lobby = {
    host: event.pubkey,
    name,
    people,
    by,
    lock,
    what,
    run,
    text: text === undefined ? undefined : { manifest: text, bytes: textBytes!, name: textName! },
    names: new Map(names.map((each) => [each.slice(0, 64), each.slice(65)])),
  };
  return ok({ value, createdAt: event.created_at });
}

/** Returns the unsigned event of an attendee. */
export const buildAttendee = (
  lobby: LobbyAddress,
  { name, proof, isLeaving }: Omit<Attendee, 'key'>,
  createdAt: number,
): EventDraft =>
  attendeeKind.build(
    {
      lobby: slotOf(lobby),
      name,
      proof,
      status: isLeaving ? 'leaving' : undefined,
      expiration: createdAt + ATTENDEE_SECONDS,
    },
    createdAt,
  );

/** Reads the event of an attendee of this lobby; with a secret, refuses an attendee without the proof for its key. */
export function readAttendee(
  event: SignedEvent,
  lobby: LobbyAddress,
  secret: string | undefined,
): Result<Dated<Attendee>> {
  const parsed = attendeeKind.parse(event);
  if (!parsed.ok) return parsed;
  const { name, proof, status } = parsed.value;
  if (parsed.value.lobby !== slotOf(lobby)) return refuse('other-lobby', 'tags.d', 'another lobby');
  if (secret !== undefined && proof !== proofOf(secret, lobby, event.pubkey)) {
    return refuse(
      'no-proof',
      'content.proof',
      'the attendee does not know the secret of the lobby',
    );
  }
  const value = { key: event.pubkey, name, proof, isLeaving: status !== undefined };
  return ok({ value, createdAt: event.created_at });
}
