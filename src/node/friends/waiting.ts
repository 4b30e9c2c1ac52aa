/** Waiting in a lobby: the host for enough people, an attendee for the start and to be let in. */
import {
  type Clock,
  deferred,
  notifiedOrDeadline,
  systemClock,
  unlessAborted,
  within,
} from '../../base/async.ts';
import { RelayError } from '../../base/errors.ts';
import { ASSERTION } from '../../certified/decisions/admission.ts';
import type { OpenLobby, Person } from '../../friends/open-lobby.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { findRun } from '../join/find-run.ts';
import type { Connection } from '../net/relays.ts';
import { addressIn, type InLobby, unknownLobby } from './in-lobby.ts';

/** Time for the relays to send the lobby. */
const FIND_MS = 10_000;
/** Time to tell the others that this person leaves. */
const GOODBYE_MS = 2000;

interface Waiting {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Waits until the people in the lobby are enough. Returns them. */
export async function gather(
  lobby: OpenLobby,
  isEnough: (present: readonly Person[]) => boolean,
  signal: AbortSignal,
): Promise<readonly Person[]> {
  for (;;) {
    const present = lobby.present();
    if (isEnough(present)) return present;
    await lobby.changed.next(signal);
  }
}

/**
 * Waits until the host starts the run and returns its id; `onWait` is called while it waits. Says goodbye if it fails.
 * Throws a RelayError (`lobby/unknown`, `lobby/secret`) if the relays have no such lobby or the line does not open it.
 */
export async function waitForStart(
  lobby: OpenLobby,
  { onWait, clock, signal }: Waiting & { onWait(): void },
): Promise<Digest> {
  try {
    const untilMs = clock.now() + FIND_MS;
    while (lobby.lobby === undefined && clock.now() < untilMs) {
      await notifiedOrDeadline(lobby.changed, clock, untilMs, signal);
    }
    assertOpen(lobby);
    for (;;) {
      const { run } = lobby.lobby!;
      if (run !== undefined) return run;
      onWait();
      await lobby.changed.next(signal);
    }
  } catch (error) {
    await within(lobby.announce(true), GOODBYE_MS, clock);
    throw error;
  }
}

function assertOpen(lobby: OpenLobby): void {
  if (lobby.lobby === undefined) throw unknownLobby();
  if (lobby.isOpenToMe) return;
  throw new RelayError('lobby/secret', 'this line does not open the lobby', {
    hint: 'copy the whole line that the host printed, or ask for a new one',
  });
}

export interface LobbyStay {
  readonly connection: Connection;
  /** Work to do until the start, which aborts the signal. */
  meanwhile?(signal: AbortSignal): Promise<void>;
  /** Called at each change while the host has not started. */
  onWait(): void;
  /** Called once with the keys that can let this person into a run that has started without it. */
  onShut(anchors: readonly WorkerId[]): void;
}

/** Stays in a lobby until its run has started and this person may join. Returns the id of the run. */
export async function attend(
  inLobby: InLobby,
  { connection, meanwhile, onWait, onShut }: LobbyStay,
): Promise<Digest> {
  const { lobby, signal } = inLobby;
  const staying = new AbortController();
  const until = AbortSignal.any([signal, staying.signal]);
  const others = Promise.allSettled([lobby.stay(until), meanwhile?.(until)]);
  try {
    const run = await waitForStart(lobby, { onWait, clock: systemClock, signal });
    staying.abort(new Error('started'));
    await others;
    await waitForInvitation(run, inLobby, { connection, onShut });
    return run;
  } finally {
    staying.abort(new Error('left'));
    await others;
  }
}

/** Waits until a founder of the run has let in this person, unless the run admits them anyway. */
async function waitForInvitation(
  run: Digest,
  inLobby: InLobby,
  { connection, onShut }: Pick<LobbyStay, 'connection' | 'onShut'>,
): Promise<void> {
  const { invitation, relays, signer, signal } = inLobby;
  const reach = { relays: invitation.relays, connection, signer, signal };
  const { spec } = await findRun(addressIn(inLobby, run), reach);
  const { admission, founders } = spec;
  if (admission.kind !== 'trust' || founders.includes(signer.publicKey)) return;
  const { anchors } = admission;
  const filters = [{ kinds: [ASSERTION], authors: anchors, '#d': [signer.publicKey] }];
  const invited = deferred<void>();
  let isQuiet = false;
  const subscription = relays.subscribe(filters, {
    onEvent: () => {
      isQuiet = true;
      invited.settle();
    },
    onCaughtUp: () => {
      if (!isQuiet) onShut(anchors);
      isQuiet = true;
    },
  });
  try {
    await unlessAborted(invited.promise, signal);
  } finally {
    subscription.close();
  }
}
