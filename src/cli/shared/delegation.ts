/** In whose name a worker takes part, in a run with sessions: kept in the folder of the run, or asked of its owner's remote signer once. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { systemClock } from '../../base/async.ts';
import { parseJson } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { draftDelegation, readDelegation, type SessionOf } from '../../certified/wire/messages.ts';
import type { Signer } from '../../network/event.ts';
import { askBunker, parseBunker } from '../../network/wire/bunker.ts';
import { type Delegation, delegationField } from '../../run/delegation.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { writeNote } from '../../terminal/output.ts';
import type { FlagRule } from '../../terminal/unused-flags.ts';
import { type Reach, withRelays } from './with-relays.ts';

/** Adds `--bunker` and `--no-seats`. */
export const addNamingFlags = (command: Command): Command =>
  command.addOption(bunkerOption()).addOption(seatsOption());

const bunkerOption = (): Option =>
  new Option(
    '--bunker <address>',
    'take part in the name of the key behind this remote signer (bunker://…, NIP-46), which signs that once; in runs made with --sessions',
  );

/** What both add. */
export interface NamingFlags {
  readonly bunker?: string;
  readonly seats?: boolean;
}

const seatsOption = (): Option =>
  new Option(
    '--no-seats',
    'ask for no seats in committees, in runs made with --seat-wishes; without it the next time it asks for them again',
  );

export interface DelegationOptions extends Pick<SessionOf, 'run'>, Reach {
  /** Of the session key. */
  readonly signer: Signer;
  /** The folder of the run. */
  readonly dir: string;
}

/** What they go with. */
export const namingRules = ({ sessions, seatWishes }: RunSpec): readonly FlagRule[] => [
  { flags: ['bunker'], goesWith: 'runs made with --sessions', holds: sessions },
  { flags: ['seats'], goesWith: 'runs made with --seat-wishes', holds: seatWishes },
];

/** The delegation in the folder of the run, else a new one; null where the key takes part in its own name. */
export async function delegationIn(
  { sessions, training }: RunSpec,
  { bunker }: NamingFlags,
  { dir, run, signer, connection, signal }: DelegationOptions,
): Promise<Delegation | null> {
  if (!sessions) return null;
  const of = { run, session: signer.publicKey };
  const file = join(dir, 'delegation.json');
  const kept = parseJson(await readFile(file, 'utf8').catch(() => ''));
  const known = kept.ok ? delegationField.read(kept.value) : undefined;
  if (known) {
    writeNote(`taking part in the name of ${known.key}, as ${file} says`);
    return known;
  }
  if (bunker === undefined) return null;
  const address = parseBunker(bunker);
  if (!address.ok) {
    throw new ConfigError('flag/bunker', `--bunker: ${address.issue.message}`, {
      hint: 'copy the address that your signer shows for a new connection',
    });
  }
  const draft = draftDelegation(of, training.rounds - 1, Math.floor(systemClock.now() / 1000));
  const event = await withRelays(address.value.relays, { connection, signal }, ({ relays }) => {
    writeNote('waiting for your signer: it may ask you first');
    const onAuth = (url: string) => writeNote(`your signer asks you to open ${url}`);
    return askBunker(draft, address.value, { relays, clock: systemClock, signal, onAuth });
  });
  const read = readDelegation(event, of);
  if (!read.ok) {
    throw new ConfigError(
      'bunker/other',
      `what the signer returned does not count: ${read.issue.message}`,
      { hint: 'try another signer' },
    );
  }
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await writeFile(file, `${JSON.stringify(read.value)}\n`, { mode: 0o600 });
  writeNote(`taking part in the name of ${read.value.key}; ${file} keeps that`);
  return read.value;
}
