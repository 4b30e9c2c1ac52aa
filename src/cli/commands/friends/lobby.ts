/** Shows a waiting room, and waits in it: the host for enough people or a key press, a guest for the start. */
import { encodeQR } from 'qr';
import { type Clock, notifiedOrDeadline, systemClock } from '../../../base/async.ts';
import { RelayError } from '../../../base/errors.ts';
import { ASSERTION } from '../../../certified/decisions/admission.ts';
import { encodeRunAddress } from '../../../certified/wire/runs.ts';
import type { Person, WaitingRoom } from '../../../friends/waiting-room.ts';
import type { Connection } from '../../../node/net/relays.ts';
import type { Digest } from '../../../run/ids.ts';
import { writeNote } from '../../../terminal/output.ts';
import { findRun } from '../../shared/with-relays.ts';
import { called, listed } from './company.ts';
import { LEAST_PEOPLE } from './flags.ts';
import type { InRoom } from './together.ts';

/** Time between two looks at who has gone. */
const LOOK_MS = 5000;
/** Time for the relays to send the room. */
const FIND_MS = 10_000;
interface Waiting {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Writes the join line, and its QR code on a terminal that is wide enough. */
export function showLine(line: string, isTerminal: boolean): void {
  const code = isTerminal ? encodeQR(line.toUpperCase(), 'ascii', { ecc: 'low', border: 2 }) : '';
  const width = Math.max(...code.split('\n').map((row) => row.length));
  if (code !== '' && width <= (process.stderr.columns ?? 0)) writeNote(code);
  writeNote(`send this line to your friends:\n\n  nostrain join ${line}\n`);
}

const described = ({ key, name, isHost, isMe }: Person): string => {
  const roles = [...(isMe ? ['you'] : []), ...(isHost ? ['host'] : [])];
  return `${called(key, name)}${roles.length > 0 ? `, ${roles.join(' and ')}` : ''}`;
};

/** Calls back for every key that is pressed, until the returned function is called; Ctrl-C still interrupts. */
function onKey(callback: () => void): () => void {
  const { stdin } = process;
  if (!stdin.isTTY) return () => undefined;
  const take = (key: Buffer) => {
    if (key[0] === 3) process.kill(process.pid, 'SIGINT');
    else callback();
  };
  stdin.setRawMode(true).resume().on('data', take);
  return () => {
    stdin.setRawMode(false).pause().off('data', take);
  };
}

/** Waits until enough people are in the room, or two and a key is pressed. Returns those who are there. */
export async function gather(
  room: WaitingRoom,
  { people, hasKeys, clock, signal }: Waiting & { people: number; hasKeys: boolean },
): Promise<readonly Person[]> {
  let isPressed = false;
  const release = hasKeys
    ? onKey(() => {
        isPressed = true;
        room.changed.notify();
      })
    : () => undefined;
  let said = '';
  try {
    for (;;) {
      const present = room.present();
      const isEnough = present.length >= people || (isPressed && present.length >= LEAST_PEOPLE);
      const words = `${present.length} of ${people} are here: ${present.map(described).join('; ')}`;
      if (words !== said) writeNote(words);
      if (isEnough) return present;
      const mayStart = hasKeys && present.length >= LEAST_PEOPLE;
      if (words !== said && mayStart) writeNote('press any key to start with those who are here');
      said = words;
      isPressed = false;
      await notifiedOrDeadline(room.changed, clock, clock.now() + LOOK_MS, signal);
    }
  } finally {
    release();
  }
}

/**
 * Waits until the host starts the run and returns its id. Tells who is in the room and whom it waits for. Throws a
 * RelayError (`room/unknown`, `room/secret`) if the relays have no such room or the line does not open it.
 */
export async function waitForStart(
  room: WaitingRoom,
  { clock, signal }: Waiting,
): Promise<{ readonly run: Digest; readonly hasWaited: boolean }> {
  const untilMs = clock.now() + FIND_MS;
  while (room.room === undefined && clock.now() < untilMs) {
    await notifiedOrDeadline(room.changed, clock, untilMs, signal);
  }
  assertOpen(room);
  let said = '';
  for (;;) {
    const { run } = room.room!;
    if (run !== undefined) return { run, hasWaited: said !== '' };
    const words = waitingWords(room);
    if (words !== said) writeNote(words);
    said = words;
    await notifiedOrDeadline(room.changed, clock, clock.now() + LOOK_MS, signal);
  }
}

function assertOpen(room: WaitingRoom): void {
  if (room.room === undefined) {
    throw new RelayError('room/unknown', 'the relays of this line have no such room', {
      hint: 'ask the host for a new line: this one is outdated, or the host has not started yet',
    });
  }
  if (room.isOpenToMe) return;
  throw new RelayError('room/secret', 'this line does not open the room', {
    hint: 'copy the whole line that the host printed, or ask for a new one',
  });
}

function waitingWords(room: WaitingRoom): string {
  const { host, by, people } = room.room!;
  const present = room.present();
  const here = `${present.length} of ${people} are here: ${present.map(described).join('; ')}`;
  const away = `${called(host, by)}, the host, is away: the room waits until they come back`;
  if (!room.isHostHere) return `${here}\n${away}`;
  const missing = people - present.length;
  if (missing > 0) return `${here}\nwaiting for ${missing} more`;
  return `${here}\nwaiting for ${called(host, by)} to start the run`;
}

/** Waits until a founder of the run has let in this person, unless the run admits them anyway. */
export async function waitForInvitation(
  run: Digest,
  { invitation, room, relays, signer, signal }: InRoom,
  connection: Connection,
): Promise<void> {
  const { host: author, relays: urls } = invitation;
  const source = encodeRunAddress({ run, author, relays: [] });
  const { spec } = await findRun(source, { relays: urls, connection, signer, signal });
  const { admission, founders } = spec;
  if (admission.kind !== 'trust' || founders.includes(signer.publicKey)) return;
  const { anchors } = admission;
  const filters = [{ kinds: [ASSERTION], authors: anchors, '#d': [signer.publicKey] }];
  for (let isSaid = false; ; isSaid = true) {
    const { events } = await relays.query(filters, { waitMs: FIND_MS, signal });
    if (events.length > 0) return;
    const names = listed(anchors.map((key) => called(key, room.nameOf(key))));
    if (!isSaid)
      writeNote(`the run has started: one of ${names} lets you in as soon as they train`);
    await systemClock.sleep(LOOK_MS, signal);
  }
}
