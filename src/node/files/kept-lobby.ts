/** Stores the lobbies that this machine hosts, so that a restarted host opens the same one. */

import { randomBytes } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex, utf8 } from '../../base/bytes.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { isObject } from '../../base/shape.ts';
import type { Invitation } from '../../friends/line.ts';
import { isLobbyName } from '../../friends/lobby.ts';
import type { Digest } from '../../run/ids.ts';
import { cannotWrite, writeAtomically } from './atomic-file.ts';
import { dataHome } from './data-home.ts';
import { listLocalRuns } from './local-runs.ts';

/** A lobby that this machine hosts. */
export interface KeptLobby extends Required<Pick<Invitation, 'host' | 'name' | 'relays'>> {
  readonly secret?: string | undefined;
  /** Number of people that start the run. */
  readonly people: number;
  /** Port and address of the relay that the host runs for the lobby. */
  readonly relay?: { readonly host: string; readonly port: number } | undefined;
  /** What was typed about the run; another call must type the same. */
  readonly typed: string;
  readonly run?: Digest | undefined;
}

const SECRET_BYTES = 16;

/** Returns the folder of a lobby. */
export const lobbyFolder = (name: string): string => join(dataHome(), 'lobbies', name);

const fileOf = (name: string): string => join(lobbyFolder(name), 'lobby.json');

export interface LobbyRequest extends Pick<KeptLobby, 'host' | 'name' | 'typed'> {
  /** Number of people that start the run; only a new lobby needs it. */
  readonly people: number | undefined;
  /** Whether every key that sees the lobby may join, without a secret. */
  readonly isOpen: boolean;
}

/**
 * Returns the lobby that this machine hosts under this name, or a new one. Throws a ConfigError if the name is invalid
 * or missing its people (`flag/name`, `flag/people`), was opened with other settings (`lobby/other`), or is taken
 * (`lobby/taken`).
 */
export async function openKeptLobby(request: LobbyRequest): Promise<KeptLobby> {
  const { name, host, typed } = request;
  if (!isLobbyName(name)) {
    throw new ConfigError('flag/name', `${JSON.stringify(name)} cannot be the name of a run`, {
      hint: 'use 1 to 32 letters, digits, dots, dashes and underscores, such as winter',
    });
  }
  const kept = await readKeptLobby(name);
  if (kept === undefined) return newLobby(request);
  if (kept.host !== host) {
    throw new ConfigError('lobby/taken', `${name} was opened on this machine with another key`, {
      hint: 'use that key (--key-file FILE), or choose another name',
    });
  }
  const people = request.people ?? kept.people;
  if (kept.run !== undefined || kept.typed === typed) return { ...kept, people };
  throw new ConfigError('lobby/other', `${name} was opened with other settings`, {
    hint: 'run the same command as before, or choose another name',
  });
}

async function newLobby({ isOpen, people, ...lobby }: LobbyRequest): Promise<KeptLobby> {
  const { name } = lobby;
  if (people === undefined) {
    throw new ConfigError('flag/people', 'the number of people is missing', {
      hint: 'add it, you included: --people 3',
    });
  }
  if ((await listLocalRuns()).some((run) => run.name === name)) {
    throw new ConfigError('lobby/taken', `a run called ${name} is already on this machine`, {
      hint: `choose another name; \`nostrain show ${name}\` shows that run`,
    });
  }
  const secret = isOpen ? undefined : toHex(randomBytes(SECRET_BYTES));
  return { ...lobby, relays: [], secret, people };
}

/** Returns the lobby of this name; undefined if this machine hosts none. */
async function readKeptLobby(name: string): Promise<KeptLobby | undefined> {
  const text = await readFile(fileOf(name), 'utf8').catch(() => '');
  if (text === '') return undefined;
  const value = jsonIn(text);
  if (isLobby(value)) return value;
  throw new ConfigError('lobby/file', `${fileOf(name)} is not a lobby`, {
    hint: 'remove its folder, or use another name',
  });
}

/** Reports whether a file of this program has a lobby, and not what a crash or an editor left. */
const isLobby = (value: unknown): value is KeptLobby =>
  isObject(value) && typeof value.host === 'string' && Array.isArray(value.relays);

/** Stores the lobby. Throws a CheckpointError (`run/write`) if the disk is full or the folder cannot be written to. */
export async function keepLobby(lobby: KeptLobby): Promise<void> {
  const folder = lobbyFolder(lobby.name);
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw cannotWrite(folder, cause);
  });
  await writeAtomically(fileOf(lobby.name), utf8(`${JSON.stringify(lobby, null, 2)}\n`));
}
