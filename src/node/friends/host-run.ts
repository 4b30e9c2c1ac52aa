/** Hosts and joins runs of friends from a program, as `nostrain host` and `nostrain join` do in a terminal. */
import { defaultRetry, withScope } from '../../base/async.ts';
import { type Invitation, joinLineOf } from '../../friends/line.ts';
import { type Lobby, lockOf } from '../../friends/lobby.ts';
import type { Person } from '../../friends/open-lobby.ts';
import { parseRelayUrls } from '../../network/transport/relay-urls.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { WorkerState } from '../../worker/state.ts';
import { dataHome } from '../files/data-home.ts';
import { keepLobby, openKeptLobby } from '../files/kept-lobby.ts';
import { homeSigner } from '../files/keys.ts';
import { takeKeyLock } from '../files/run-folder.ts';
import { type JoinMachine, trainInRun } from '../join/join-run.ts';
import type { Connection } from '../net/relays.ts';
import { enterLobby } from './in-lobby.ts';
import { invitationIn } from './join-line.ts';
import { type RunRequest, specWith, startRun, trainWithLobby } from './lobby-run.ts';
import { attend } from './waiting.ts';

/** A person among friends, on this machine. */
export interface FriendMachine extends JoinMachine {
  /** Called in the lobby with the people who are there, the host first, at each change. */
  onPeople?(present: readonly Person[]): void;
}

/** A run to host: its name, model and data, and when it starts. */
export interface HostOptions extends FriendMachine, RunRequest {
  /** Name of the run and its lobby: at most 32 letters, digits, dots, dashes and underscores. */
  readonly name: string;
  /** Number of people that start the run, the host included. */
  readonly people: number;
  /** Relays of the run; the line names them. */
  readonly relays: readonly string[];
  /** Called with the line that friends pass to `joinRun` or `nostrain join`, once they can. */
  onLine(line: string): void;
}

const CONNECTION: Connection = { openTimeoutMs: 10_000, retry: defaultRetry };

/**
 * Opens a lobby, starts a run with its first people, trains in it to the end and returns the final state. Call it again
 * with the same options to resume. Throws a ConfigError if the options make no run or the name is taken, a RelayError
 * if no relay accepts the lobby, or `signal.reason`.
 */
export const hostRun = (options: HostOptions): Promise<WorkerState> =>
  withScope(async (scope) => {
    const { name, people, training, document, corpus, displayName } = options;
    const { signal = new AbortController().signal, connection = CONNECTION } = options;
    const { onNotice = () => undefined, onPeople } = options;
    const signer = await homeSigner(options, onNotice);
    const host = signer.publicKey;
    const typed = JSON.stringify({ training, document, corpus });
    const kept = await openKeptLobby({ host, name, people, typed, isOpen: false });
    const lock = await takeKeyLock(dataHome(), `lobby ${name}`, host);
    scope.defer(() => lock.release());
    const specOf = async (founders: readonly string[]): Promise<RunSpec> => {
      const request = { ...options, typed: { ...options.typed, name } };
      return (await specWith(founders, request, { onNotice, signal })).spec;
    };
    const { training: settings } = await specOf([host]); // refuses options that make no run
    const relays = parseRelayUrls(options.relays);
    const invitation: Invitation = { ...kept, relays };
    const entrance = { name: displayName, connection, signer, signal, scope };
    const inLobby = await enterLobby(invitation, entrance);
    let { run } = kept;
    if (run === undefined) {
      await keepLobby({ ...kept, relays });
      const lock = lockOf(invitation.secret!, invitation);
      const lobby = { host, name, people, by: displayName, lock, what: settings.model };
      run = await startRun(inLobby, {
        announced: { ...lobby, names: new Map() } satisfies Lobby,
        isEnough(present) {
          onPeople?.(present);
          return present.length >= people;
        },
        onOpen: () => options.onLine(joinLineOf(invitation)),
        specOf,
      });
      await keepLobby({ ...kept, relays, run });
    }
    return await trainWithLobby(run, inLobby, { ...options, signal });
  });

/**
 * Joins friends by the line of their host, or any certified run by its file, name, address (`naddr1…`), link or spec;
 * trains to its end and returns the final state. Call it again to resume. Throws a ConfigError if the run or this
 * machine does not allow it, a RelayError if no relay has the lobby or run, or `signal.reason`.
 */
export async function joinRun(
  source: string | RunSpec,
  machine: FriendMachine = {},
): Promise<WorkerState> {
  if (typeof source !== 'string') return trainInRun(source, machine);
  const invitation = await invitationIn(source, machine);
  return invitation === undefined ? trainInRun(source, machine) : joinLobby(invitation, machine);
}

const joinLobby = (invitation: Invitation, machine: FriendMachine): Promise<WorkerState> =>
  withScope(async (scope) => {
    const { onNotice = () => undefined, onPeople = () => undefined } = machine;
    const { signal = new AbortController().signal, connection = CONNECTION } = machine;
    const signer = await homeSigner(machine, onNotice);
    const entrance = { name: machine.displayName, connection, signer, signal, scope };
    const inLobby = await enterLobby(invitation, entrance);
    const run = await attend(inLobby, {
      connection,
      onWait: () => onPeople(inLobby.lobby.present()),
      onShut: () => onNotice('the run has started: a founder has to let this key in'),
    });
    return await trainWithLobby(run, inLobby, machine);
  });
