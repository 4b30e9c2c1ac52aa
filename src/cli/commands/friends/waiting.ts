/** Shows a lobby, and waits in it: the host for enough people or a key press, an attendee for the start. */
import { type Clock, notifiedOrDeadline, systemClock } from '../../../base/async.ts';
import { RelayError } from '../../../base/errors.ts';
import { ASSERTION } from '../../../certified/decisions/admission.ts';
import { encodeRunAddress } from '../../../certified/wire/runs.ts';
import type { OpenLobby, Person } from '../../../friends/open-lobby.ts';
import type { Connection } from '../../../node/net/relays.ts';
import type { Digest } from '../../../run/ids.ts';
import { writeNote } from '../../../terminal/output.ts';
import { findRun } from '../../shared/with-relays.ts';
import { called, listed } from './company.ts';
import { LEAST_PEOPLE } from './flags.ts';
import type { InLobby } from './together.ts';

/** Time between two checks of who has gone. */
const POLL_MS = 5000;
/** Time for the relays to send the lobby. */
const FIND_MS = 10_000;
interface Waiting {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Returns the QR code of a line, in letters that need the fewest modules. */
async function codeOf(line: string): Promise<string> {
  const { encodeQR } = await import('qr');
  return encodeQR(line.toUpperCase(), 'ascii', { ecc: 'low', border: 2 });
}

/** Writes the join line, and its QR code on a terminal that is wide enough. */
export async function showLine(line: string, isTerminal: boolean): Promise<void> {
  const code = isTerminal ? await codeOf(line) : '';
  const width = Math.max(...code.split('\n').map((row) => row.length));
  if (code !== '' && width <= (process.stderr.columns ?? 0)) writeNote(code);
  writeNote(`send this line to your friends:\n\n  nostrain join ${line}\n`);
}

const described = ({ key, name, isHost, isMe }: Person): string => {
  const roles = [...(isMe ? ['you'] : []), ...(isHost ? ['host'] : [])];
  return `${called(key, name)}${roles.length > 0 ? `, ${roles.join(' and ')}` : ''}`;
};

const attendanceOf = (present: readonly Person[], people: number): string =>
  `${present.length} of ${people} are here: ${present.map(described).join('; ')}`;

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

/** Waits until enough people are in the lobby, or two and a key is pressed. Returns those who are there. */
export async function gather(
  lobby: OpenLobby,
  { people, hasKeys, clock, signal }: Waiting & { people: number; hasKeys: boolean },
): Promise<readonly Person[]> {
  let isPressed = false;
  const release = hasKeys
    ? onKey(() => {
        isPressed = true;
        lobby.changed.notify();
      })
    : () => undefined;
  let shown = '';
  try {
    for (;;) {
      const present = lobby.present();
      const isEnough = present.length >= people || (isPressed && present.length >= LEAST_PEOPLE);
      const words = attendanceOf(present, people);
      if (words !== shown) writeNote(words);
      if (isEnough) return present;
      const mayStart = hasKeys && present.length >= LEAST_PEOPLE;
      if (words !== shown && mayStart) writeNote('press any key to start with those who are here');
      shown = words;
      isPressed = false;
      await notifiedOrDeadline(lobby.changed, clock, clock.now() + POLL_MS, signal);
    }
  } finally {
    release();
  }
}

/**
 * Waits until the host starts the run and returns its id. Tells who is in the lobby and whom it waits for. Throws a
 * RelayError (`lobby/unknown`, `lobby/secret`) if the relays have no such lobby or the line does not open it.
 */
export async function waitForStart(lobby: OpenLobby, { clock, signal }: Waiting): Promise<Digest> {
  const untilMs = clock.now() + FIND_MS;
  while (lobby.lobby === undefined && clock.now() < untilMs) {
    await notifiedOrDeadline(lobby.changed, clock, untilMs, signal);
  }
  assertOpen(lobby);
  let shown = '';
  for (;;) {
    const { run } = lobby.lobby!;
    if (run !== undefined) return run;
    const words = waitingWords(lobby);
    if (words !== shown) writeNote(words);
    shown = words;
    await notifiedOrDeadline(lobby.changed, clock, clock.now() + POLL_MS, signal);
  }
}

function assertOpen(lobby: OpenLobby): void {
  if (lobby.lobby === undefined) {
    throw new RelayError('lobby/unknown', 'the relays of this line have no such lobby', {
      hint: 'ask the host for a new line: this one is outdated, or the host has not started yet',
    });
  }
  if (lobby.isOpenToMe) return;
  throw new RelayError('lobby/secret', 'this line does not open the lobby', {
    hint: 'copy the whole line that the host printed, or ask for a new one',
  });
}

function waitingWords(lobby: OpenLobby): string {
  const { host, by, people } = lobby.lobby!;
  const present = lobby.present();
  const attendance = attendanceOf(present, people);
  const away = `${called(host, by)}, the host, is away: the lobby waits until they come back`;
  if (!lobby.isHostPresent) return `${attendance}\n${away}`;
  const missing = people - present.length;
  if (missing > 0) return `${attendance}\nwaiting for ${missing} more`;
  return `${attendance}\nwaiting for ${called(host, by)} to start the run`;
}

/** Waits until a founder of the run has let in this person, unless the run admits them anyway. */
export async function waitForInvitation(
  run: Digest,
  { invitation, lobby, relays, signer, signal }: InLobby,
  connection: Connection,
): Promise<void> {
  const { host: author, relays: urls } = invitation;
  const source = encodeRunAddress({ run, author, relays: [] });
  const { spec } = await findRun(source, { relays: urls, connection, signer, signal });
  const { admission, founders } = spec;
  if (admission.kind !== 'trust' || founders.includes(signer.publicKey)) return;
  const { anchors } = admission;
  const filters = [{ kinds: [ASSERTION], authors: anchors, '#d': [signer.publicKey] }];
  for (let isShown = false; ; isShown = true) {
    const { events } = await relays.query(filters, { waitMs: FIND_MS, signal });
    if (events.length > 0) return;
    const names = listed(anchors.map((key) => called(key, lobby.nameOf(key))));
    if (!isShown)
      writeNote(`the run has started: ${names} can let you in, as soon as one of them trains`);
    await systemClock.sleep(POLL_MS, signal);
  }
}
