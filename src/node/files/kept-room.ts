/** The rooms that this machine hosts: one folder each in the data folder, so that a restarted host opens the same one. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { utf8 } from '../../base/bytes.ts';
import { parseJson } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Invitation } from '../../friends/line.ts';
import type { Digest } from '../../run/ids.ts';
import { isObject } from '../../run/spec/spec-readers.ts';
import { cannotWrite, writeAtomically } from './atomic-file.ts';
import { dataHome } from './data-home.ts';

/** A room that this machine hosts. */
export interface KeptRoom extends Required<Pick<Invitation, 'host' | 'name' | 'relays'>> {
  readonly secret?: string | undefined;
  /** Number of people that start the run. */
  readonly people: number;
  /** Port and address of the relay that the host runs for the room. */
  readonly relay?: { readonly host: string; readonly port: number } | undefined;
  /** What was typed about the run; another call must type the same. */
  readonly typed: string;
  readonly run?: Digest | undefined;
}

/** Returns the folder of a room. */
export const roomFolder = (name: string): string => join(dataHome(), 'rooms', name);

const fileOf = (name: string): string => join(roomFolder(name), 'room.json');

/** Returns the room of this name; undefined if this machine hosts none. */
export async function readKeptRoom(name: string): Promise<KeptRoom | undefined> {
  const text = await readFile(fileOf(name), 'utf8').catch(() => '');
  if (text === '') return undefined;
  const read = parseJson(text);
  const isRoom = read.ok && isObject(read.value) && typeof read.value.host === 'string';
  if (isRoom) return read.value as unknown as KeptRoom;
  throw new ConfigError('room/file', `${fileOf(name)} is not a room`, {
    hint: 'remove its folder, or use another name',
  });
}

/** Stores the room. Throws a CheckpointError (`run/write`) if the disk is full or the folder cannot be written to. */
export async function keepRoom(room: KeptRoom): Promise<void> {
  const folder = roomFolder(room.name);
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw cannotWrite(folder, cause);
  });
  await writeAtomically(fileOf(room.name), utf8(`${JSON.stringify(room, null, 2)}\n`));
}
