/** Waiting rooms as events: builds and reads the room of a host and the presence of its guests. */
import { displayName } from '../../kinds/_tags.ts';
import { guest as guestKind } from '../../kinds/guest.ts';
import { room as roomKind } from '../../kinds/room.ts';
import { toHex } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { hashFields } from '../base/hash.ts';
import type { EventDraft, SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/frames.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

/** A room: its host and its name. */
export interface RoomAddress {
  readonly host: WorkerId;
  readonly name: string;
}

/** Training data that guests download. */
export interface RoomText {
  /** SHA-256 of its manifest. */
  readonly manifest: Digest;
  readonly bytes: number;
  readonly name: string;
}

/** A room as its host describes it. */
export interface Room extends RoomAddress {
  readonly people: number;
  /** Name of the host. */
  readonly by?: string | undefined;
  /** Digest of the secret; undefined if every key that knows the address counts. */
  readonly lock?: Digest | undefined;
  /** Model and data, for people. */
  readonly what: string;
  readonly text?: RoomText | undefined;
  /** The run, once it has started. */
  readonly run?: Digest | undefined;
  /** Names of founders, by key. */
  readonly names: ReadonlyMap<WorkerId, string>;
}

/** A guest as it describes itself. */
export interface Guest {
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

/** Seconds between two announcements of a room or a guest. */
export const INTERVAL_SECONDS = 30;
/** A room without a run expires after a week; with a run it lets in newcomers for longer. */
const ROOM_SECONDS = 7 * 86_400;
const STARTED_SECONDS = 60 * 86_400;
/** A member of the run that is online for a moment within this time lets the guest in. */
const GUEST_SECONDS = 86_400;

/** Reports whether a person or a thing can be called this in a room. */
export const isDisplayName = (text: string): boolean => displayName.read(text) !== undefined;

/** Reports whether a room can have this name. */
export const isRoomName = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/.test(text);

/** Returns the digest by which a joiner recognizes the secret of a room. */
export const lockOf = (secret: string, { host, name }: RoomAddress): Digest =>
  toHex(hashFields('nostrain/room/1', secret, host, name));

/** Returns the proof that a key knows the secret of a room. */
export const proofOf = (secret: string, room: RoomAddress, key: WorkerId): Digest =>
  toHex(hashFields('nostrain/guest/1', secret, slotOf(room), key));

/** Returns the room as guests name it. */
const slotOf = ({ host, name }: RoomAddress): string => `${host}:${name}`;

/** Returns the unsigned event of a room. */
export function buildRoom({ name, text, names, ...room }: Room, createdAt: number): EventDraft {
  const { people, by, lock, what, run } = room;
  const listed = [...names].map(([key, called]) => `${key} ${called}`);
  return roomKind.build(
    {
      room: name,
      people,
      by,
      lock,
      what,
      text: text?.manifest,
      textBytes: text?.bytes,
      textName: text?.name,
      run,
      names: run === undefined || listed.length === 0 ? undefined : listed,
      expiration: createdAt + (run === undefined ? ROOM_SECONDS : STARTED_SECONDS),
    },
    createdAt,
  );
}

/** Returns the filter for a room and all its guests. */
export const roomFilters = (room: RoomAddress): readonly Filter[] => [
  roomKind.filter({ room: room.name }, { authors: [room.host] }),
  guestKind.filter({ room: slotOf(room) }),
];

/** Returns the filter for all rooms of this name. */
export const namesakeFilter = (name: string): Filter => roomKind.filter({ room: name });

/** Reads the event of a room; refuses one that is not valid. */
export function readRoom(event: SignedEvent): Result<Dated<Room>> {
  const parsed = roomKind.parse(event);
  if (!parsed.ok) return parsed;
  const { room: name, text, textBytes, textName, names = [], ...rest } = parsed.value;
  const { people, by, lock, what, run } = rest;
  const value: Room = {
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

/** Returns the unsigned event of a guest. */
export const buildGuest = (
  room: RoomAddress,
  { name, proof, isLeaving }: Omit<Guest, 'key'>,
  createdAt: number,
): EventDraft =>
  guestKind.build(
    {
      room: slotOf(room),
      name,
      proof,
      status: isLeaving ? 'leaving' : undefined,
      expiration: createdAt + GUEST_SECONDS,
    },
    createdAt,
  );

/** Reads the event of a guest of this room; with a secret, refuses a guest without the proof for its key. */
export function readGuest(
  event: SignedEvent,
  room: RoomAddress,
  secret: string | undefined,
): Result<Dated<Guest>> {
  const parsed = guestKind.parse(event);
  if (!parsed.ok) return parsed;
  const { name, proof, status } = parsed.value;
  if (parsed.value.room !== slotOf(room)) return refuse('other-room', 'tags.d', 'another room');
  if (secret !== undefined && proof !== proofOf(secret, room, event.pubkey)) {
    return refuse('no-proof', 'content.proof', 'the guest does not know the secret of the room');
  }
  const value = { key: event.pubkey, name, proof, isLeaving: status !== undefined };
  return ok({ value, createdAt: event.created_at });
}
