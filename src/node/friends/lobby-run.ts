/** The run of a lobby: its spec, its start by the host, and training with its people. */
import { systemClock, withScope } from '../../base/async.ts';
import { RelayError } from '../../base/errors.ts';
import { type Made, makeSpec, type SpecRequest } from '../../certified/make-spec.ts';
import { publishRun } from '../../certified/wire/runs.ts';
import type { Lobby } from '../../friends/lobby.ts';
import type { Person } from '../../friends/open-lobby.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import type { WorkerState } from '../../worker/state.ts';
import { dataOfSpec } from '../data/spec-data.ts';
import { type JoinMachine, trainInRun } from '../join/join-run.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { startOfSettings } from '../pretrained/imported-file.ts';
import { Company } from './company.ts';
import { addressIn, type InLobby } from './in-lobby.ts';
import { gather } from './waiting.ts';

/** Rounds after which a founder that was never seen would lose its seat: longer than friends train. */
const LONG = 4096;
/** Time for the proposer of a round, who may be away. */
const VIEW_MS = 5000;

/**
 * Returns the fields by which founders keep their seats while they are away: a round needs most of them, and a minority
 * may be absent.
 */
export const founderFields = (quorum: 'cft' | 'bft' = 'cft') => ({
  committee: { quorum },
  liveRounds: LONG,
  absentRounds: LONG,
  timing: { viewMs: VIEW_MS },
});

/** The run of a lobby without its founders. */
export interface RunRequest extends Pick<SpecRequest, 'document' | 'typed' | 'training'> {
  /** File with the training data; by default the text or synthetic data of the model. */
  readonly corpus?: string | undefined;
}

/** Returns the spec of a run with these founders; the first one is its author. */
export async function specWith(
  founders: readonly WorkerId[],
  { document, typed, training, corpus }: RunRequest,
  surroundings: { readonly signal: AbortSignal; onNotice(message: string): void },
): Promise<Made> {
  return makeSpec({
    document: { ...founderFields(), ...document },
    typed: { ...typed, founders },
    ...(training && { training }),
    me: founders[0]!,
    isGuarded: true,
    ...(await dataOfSpec({ corpus }, surroundings)),
    start: (settings) => startOfSettings(settings, surroundings),
  });
}

export interface LobbyOpening {
  /** The lobby as it is announced. */
  readonly announced: Lobby;
  /** Returns whether to start with the people who are present; asked at every change. */
  readonly isEnough: (present: readonly Person[]) => boolean;
  /** Called once the lobby is open to friends. */
  onOpen(): Promise<void> | void;
  /** Returns the spec with these founders. */
  specOf(founders: readonly WorkerId[]): Promise<RunSpec>;
}

/**
 * Opens the lobby, waits for people and starts the run with them as founders. Returns the id of the run. Throws a
 * RelayError if no relay accepts the lobby (`lobby/refused`) or the run (`run/not-published`).
 */
export async function startRun(
  inLobby: InLobby,
  { announced, isEnough, onOpen, specOf }: LobbyOpening,
): Promise<Digest> {
  const { lobby, signal } = inLobby;
  if (!(await lobby.describe(announced))) {
    throw new RelayError('lobby/refused', 'no relay accepted the lobby', {
      hint: '`nostrain relays check URL` says what a relay allows; name others with --relay URL',
    });
  }
  const staying = new AbortController();
  const stay = lobby.stay(AbortSignal.any([signal, staying.signal]));
  try {
    await onOpen();
    const present = await gather(lobby, isEnough, signal);
    const { host } = inLobby.invitation;
    const founders = new Set([host, ...present.map(({ key }) => key)]);
    const run = await publish(await specOf([...founders]), inLobby);
    const named = present.flatMap(({ key, name }) => (name === undefined ? [] : [{ key, name }]));
    const names = new Map(named.map(({ key, name }) => [key, name]));
    await lobby.describe({ ...announced, run, names });
    return run;
  } finally {
    staying.abort(new Error('started'));
    await stay.catch(() => undefined);
  }
}

async function publish(spec: RunSpec, { relays, signer, signal }: InLobby): Promise<Digest> {
  const sign = signer.sign.bind(signer);
  const session = { relays, clock: systemClock, sha256: nativeSha256, signal, sign };
  const { accepted, failed } = await publishRun(spec, undefined, session);
  if (accepted.length > 0) return runIdOf(spec);
  const words = failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
  throw new RelayError('run/not-published', `no relay accepted the run: ${words}`, {
    hint: 'run the same command again; your friends are still in the lobby',
  });
}

/** Returns the company of a person who trains with a lobby: it lets attendees in until the signal aborts. */
export function keepCompany(
  spec: RunSpec,
  { invitation, lobby, relays, signer }: InLobby,
  { notify, signal }: { readonly signal: AbortSignal; notify(message: string): void },
): Company {
  const areProven = invitation.secret !== undefined;
  const ports = { lobby, areProven, relays, signer, clock: systemClock, signal, notify };
  const company = new Company(spec, ports);
  // it ends with the signal
  company.keep().catch(() => undefined);
  return company;
}

/** Trains in the run of a lobby to its end, lets attendees in, and returns the final state. */
export const trainWithLobby = (
  run: Digest,
  inLobby: InLobby,
  machine: JoinMachine,
): Promise<WorkerState> =>
  withScope((scope) => {
    const ended = new AbortController();
    scope.defer(() => ended.abort(new Error('ended')));
    const signal = AbortSignal.any([inLobby.signal, ended.signal]);
    const notify = machine.onNotice ?? (() => undefined);
    let company: Company | undefined;
    return trainInRun(addressIn(inLobby, run), {
      ...machine,
      relays: inLobby.invitation.relays,
      signal: inLobby.signal,
      onSpec(spec) {
        machine.onSpec?.(spec);
        company = keepCompany(spec, inLobby, { notify, signal });
      },
      report(event) {
        company?.hear(event);
        machine.report?.(event);
      },
    });
  });
