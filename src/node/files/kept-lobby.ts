/** Stores the lobbies that this machine hosts, so that a restarted host opens the same one. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { utf8 } from '../../base/bytes.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Invitation } from '../../friends/line.ts';
import type { Digest } from '../../run/ids.ts';
import { isObject } from '../../run/spec/spec-readers.ts';
import { cannotWrite, writeAtomically } from './atomic-file.ts';
import { dataHome } from './data-home.ts';

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

/** Returns the folder of a lobby. */
export const lobbyFolder = (name: string): string => join(dataHome(), 'lobbies', name);

const fileOf = (name: string): string => join(lobbyFolder(name), 'lobby.json');

/** Returns the lobby of this name; undefined if this machine hosts none. */
export async function readKeptLobby(name: string): Promise<KeptLobby | undefined> {
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
