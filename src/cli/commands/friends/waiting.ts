/** Shows a lobby: its line, who is in it, and whom it waits for; takes the keys of its host. */
import type { Invitation } from '../../../friends/line.ts';
import { namesakeFilter, readLobby } from '../../../friends/lobby.ts';
import type { OpenLobby, Person } from '../../../friends/open-lobby.ts';
import type { RelaySet } from '../../../network/transport/relay-set.ts';
import { listed } from '../../../node/friends/company.ts';
import type { WorkerId } from '../../../run/ids.ts';
import { called } from '../../../run/worker-names.ts';
import { noteStream, writeNote } from '../../../terminal/output.ts';
import { LEAST_PEOPLE } from './flags.ts';

/** Returns the QR code of a line, in letters that need the fewest modules. */
async function codeOf(line: string): Promise<string> {
  const { encodeQR } = await import('qr');
  return encodeQR(line.toUpperCase(), 'ascii', { ecc: 'low', border: 2 });
}

/** Time for the relays to name other lobbies. */
const NAMESAKES_MS = 5000;

/** Warns of lobbies of other hosts with this name: their friends see another line. */
export async function warnOfNamesakes(
  {
    invitation: { name, host },
    relays,
  }: { invitation: Invitation; relays: Pick<RelaySet, 'query'> },
  signal: AbortSignal,
): Promise<void> {
  const { events } = await relays.query([namesakeFilter(name)], { waitMs: NAMESAKES_MS, signal });
  const isOther = events.some((event) => readLobby(event).ok && event.pubkey !== host);
  if (isOther) {
    writeNote(`another host has a lobby called ${name} here: your friends need exactly your line`);
  }
}

/** Lines of a lobby below the QR code. */
const LINES_BELOW = 12;

/** Writes the join line, and its QR code on a terminal that is large enough. */
export async function showLine(line: string, isTerminal: boolean): Promise<void> {
  const code = isTerminal ? await codeOf(line) : '';
  const rows = code.split('\n');
  const { columns = 0, rows: height = 0 } = noteStream;
  const isFitting = (rows[0] ?? '').length <= columns && rows.length + LINES_BELOW <= height;
  if (isFitting) writeNote(code);
  else if (isTerminal) {
    writeNote(`a terminal of ${rows.length + LINES_BELOW} lines shows this line as a QR code too`);
  }
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
  const take = (key: Buffer) => {
    if (key[0] === 3) process.kill(process.pid, 'SIGINT');
    else callback();
  };
  stdin.setRawMode(true).resume().on('data', take);
  return () => {
    stdin.setRawMode(false).pause().off('data', take);
  };
}

/** Tells a host who is in the lobby, and decides when they are enough: all people, or two and a key is pressed. */
export function createWelcome(lobby: OpenLobby, people: number, hasKeys: boolean) {
  let close = (): void => undefined;
  let isPressed = false;
  let shown = '';
  return {
    /** Takes keys until it is closed. */
    listen(): void {
      if (!hasKeys) return;
      close = onKey(() => {
        isPressed = true;
        lobby.changed.notify();
      });
    },
    close: () => close(),
    isEnough(present: readonly Person[]): boolean {
      const mayStart = hasKeys && present.length >= LEAST_PEOPLE;
      const isEnough = present.length >= people || (isPressed && mayStart);
      isPressed = false;
      const words = attendanceOf(present, people);
      if (words === shown) return isEnough;
      shown = words;
      writeNote(words);
      if (mayStart && !isEnough) writeNote('press any key to start with those who are here');
      return isEnough;
    },
  };
}

/** Returns a function that tells an attendee who is in the lobby and whom it waits for, once for each change. */
export function tellsWaiting(lobby: OpenLobby): () => void {
  let shown = '';
  return () => {
    const words = waitingWords(lobby);
    if (words !== shown) writeNote(words);
    shown = words;
  };
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

/** Tells an attendee of a run that has started who can let it in. */
export function tellAnchors(lobby: OpenLobby, anchors: readonly WorkerId[]): void {
  const names = listed(anchors.map((key) => called(key, lobby.nameOf(key))));
  writeNote(`the run has started: ${names} can let you in, as soon as one of them trains`);
}
