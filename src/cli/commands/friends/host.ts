/** `nostrain host`: opens a waiting room, makes the run with the people in it, and trains as one of them. */
import { randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { naddrEncode } from 'nostr-tools/nip19';
import { room as roomKind } from '../../../../kinds/room.ts';
import type { Relay } from '../../../../relay/server.ts';
import { type Scope, systemClock, withScope } from '../../../base/async.ts';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import type { Made } from '../../../certified/make-spec.ts';
import { encodeInvitation, type Invitation } from '../../../friends/line.ts';
import { isRoomName, namesakeFilter, readRoom } from '../../../friends/room.ts';
import { WaitingRoom } from '../../../friends/waiting-room.ts';
import type { Signer } from '../../../network/event.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { type KeptRoom, keepRoom, readKeptRoom } from '../../../node/files/kept-room.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { listLocalRuns } from '../../../node/files/local-runs.ts';
import { takeKeyLock } from '../../../node/files/run-folder.ts';
import { connectRelays, noticeOfWaiting } from '../../../node/net/relays.ts';
import type { Digest } from '../../../run/ids.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { addFlags } from '../../../terminal/flag-table.ts';
import { onInterrupt } from '../../../terminal/interrupt.ts';
import {
  addOptions,
  documentFromFlags,
  settingsFromFlags,
  specOptions,
} from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { addWorkerFlags } from '../../../terminal/worker-flags.ts';
import { addJoinFlags, type JoinFlags } from '../run/join.ts';
import { type HostFlags, hostFlags, isHeadless } from './flags.ts';
import { gather, showLine } from './lobby.ts';
import { openRelays } from './relays.ts';
import { roomOf, specOf, startRun, type Typed } from './start.ts';
import { addressOf, packText, pushText, type SharedText } from './text.ts';
import { type InRoom, trainInRoom } from './together.ts';

const SECRET_BYTES = 16;
/** Time between two looks at who uses the relay, and the most looks in a headless command. */
const LOOK_MS = 5000;
const MOST_LOOKS = 12;

/** Creates the command. */
export function hostFriends(): Command {
  const command = new Command('host')
    .description('train with friends: print the line that they join by, and start together')
    .argument('<name>', 'name of the run')
    .addHelpText('after', '\nAll other fields and settings: nostrain help settings');
  addWorkerFlags(addFlags(command, hostFlags), 'your data folder');
  const ofSpec = specOptions.filter(({ row }) => row.flag === undefined);
  addOptions(command, Object.fromEntries(ofSpec.map(({ name, row }) => [name, row])));
  return command.action((name: string, flags: HostFlags) => {
    const defaults: JoinFlags = addJoinFlags(new Command()).opts();
    return host(name, { ...defaults, ...flags }, command);
  });
}

async function host(name: string, flags: HostFlags, command: Command): Promise<void> {
  const signer = await homeSigner(flags, writeNote);
  const interrupt = onInterrupt();
  try {
    await withScope(async (scope) => {
      const { signal } = interrupt;
      const kept = await openKept({ name, flags, command }, signer);
      const lock = await takeKeyLock(dataHome(), `room ${name}`, signer.publicKey);
      scope.defer(() => lock.release());
      if (kept.run !== undefined) writeNote(`${name} has started: resuming`);
      const opened = await openRoom({ name, flags, command }, kept, { signer, signal, scope });
      const run = kept.run ?? (await opened.begin());
      const { corpus } = opened;
      const joined = await trainInRoom(run, opened.inRoom, withCorpus(flags, corpus), command);
      if (joined !== undefined) await untilOthersAreDone(opened.own, flags, signal);
    });
  } finally {
    interrupt.dispose();
  }
}

const withCorpus = (flags: HostFlags, corpus: string | undefined): HostFlags =>
  corpus === undefined ? flags : { ...flags, corpus };

/**
 * Returns the room that this machine hosts under this name, or a new one. Throws a ConfigError if it was opened with
 * other settings (`room/other`), or if the name is taken (`room/taken`).
 */
async function openKept({ name, flags, command }: Typed, signer: Signer): Promise<KeptRoom> {
  if (!isRoomName(name)) {
    throw new ConfigError('flag/name', `${JSON.stringify(name)} cannot be the name of a run`, {
      hint: 'use 1 to 32 letters, digits, dots, dashes and underscores, such as winter',
    });
  }
  const { relay, ...settings } = settingsFromFlags(command);
  const { corpus, quorum, open } = flags;
  const document = documentFromFlags(command);
  const typed = JSON.stringify({ document, settings, corpus, quorum, open });
  const kept = await readKeptRoom(name);
  if (kept === undefined) return newRoom(name, flags, signer, typed);
  if (kept.host !== signer.publicKey) {
    throw new ConfigError('room/taken', `${name} was opened on this machine with another key`, {
      hint: 'use that key (--key-file FILE), or choose another name',
    });
  }
  const people = flags.people ?? kept.people;
  if (kept.run !== undefined || kept.typed === typed) return { ...kept, people };
  throw new ConfigError('room/other', `${name} was opened with other settings`, {
    hint: 'run the same command as before, or choose another name',
  });
}

async function newRoom(
  name: string,
  { people, open }: HostFlags,
  signer: Signer,
  typed: string,
): Promise<KeptRoom> {
  if (people === undefined) {
    throw new ConfigError('flag/people', 'the number of people is missing', {
      hint: 'add it, you included: --people 3',
    });
  }
  const taken = (await listLocalRuns()).some((run) => run.name === name);
  if (taken) {
    throw new ConfigError('room/taken', `a run called ${name} is already on this machine`, {
      hint: `choose another name; \`nostrain show ${name}\` shows that run`,
    });
  }
  const secret = open ? undefined : toHex(randomBytes(SECRET_BYTES));
  return { host: signer.publicKey, name, relays: [], secret, people, typed };
}

interface Opened {
  readonly inRoom: InRoom;
  /** The relay that this process runs for the room. */
  readonly own: Relay | undefined;
  /** The training data of the host. */
  readonly corpus: string | undefined;
  /** Waits for people and starts the run; returns its id. */
  begin(): Promise<Digest>;
}

/** Opens relays and room. Flags that make no valid run are refused before anything else happens. */
async function openRoom(
  typed: Typed,
  kept: KeptRoom,
  { signer, signal, scope }: Pick<InRoom, 'signer' | 'signal'> & { readonly scope: Scope },
): Promise<Opened> {
  const { name, flags } = typed;
  const made =
    kept.run === undefined
      ? await specOf([signer.publicKey], typed, { signal, isQuiet: false })
      : undefined;
  const asks = !isHeadless(flags) && process.stdin.isTTY === true && process.stderr.isTTY === true;
  const { relay: given = [] } = settingsFromFlags(typed.command);
  const wishes = { relays: given, lan: flags.lan === true, asks, signal };
  const { urls, own, kept: relay } = await openRelays(name, kept, wishes);
  scope.defer(() => own?.close());
  const invitation: Invitation = { ...kept, relays: urls };
  const connection = { onWaiting: noticeOfWaiting(writeNote), ...connectionOf(flags) };
  const relays = await connectRelays(urls, connection, signer, signal);
  scope.defer(() => relays.close());
  const room = new WaitingRoom(
    invitation,
    { relays, signer, clock: systemClock, signal },
    flags.name,
  );
  scope.defer(() => room.close());
  const inRoom: InRoom = { invitation, room, relays, signer, signal };
  const keeping = { ...kept, relays: urls, relay };
  const { mirror } = flags;
  const corpus = addressOf(flags.corpus);
  if (made === undefined) return { inRoom, own, corpus, begin: async () => kept.run! };
  const text = await packText(made.spec, { name, corpus, mirror, relays: urls, signal });
  await keepRoom(keeping);
  const begin = async (): Promise<Digest> => {
    const run = await receive(inRoom, typed, { made, text, people: kept.people });
    await keepRoom({ ...keeping, run });
    return run;
  };
  return { inRoom, own, corpus: text?.path ?? corpus, begin };
}

/** Announces the room, shows the join line, waits for people and starts the run. */
async function receive(
  inRoom: InRoom,
  typed: Typed,
  { made, text, people }: { made: Made; text: SharedText | undefined; people: number },
): Promise<Digest> {
  const { invitation, room, relays, signer, signal } = inRoom;
  const { flags } = typed;
  await warnOfNamesakes(inRoom);
  const announced = roomOf(inRoom, made, text, { ...typed, people });
  if (!(await room.describe(announced))) {
    throw new RelayError('room/refused', 'no relay accepted the room', {
      hint: '`nostrain relays check URL` says what a relay allows; name others with --relay URL',
    });
  }
  const staying = new AbortController();
  const stay = room.stay(AbortSignal.any([signal, staying.signal]));
  try {
    const hasKeys = !isHeadless(flags) && process.stdin.isTTY === true;
    showLine(lineOf(invitation), hasKeys);
    if (text !== undefined) await pushText(text, flags.mirror, { relays, signer, signal });
    const present = await gather(room, { people, hasKeys, clock: systemClock, signal });
    return await startRun(present, inRoom, typed, { text, announced });
  } finally {
    staying.abort(new Error('started'));
    await stay.catch(() => undefined);
  }
}

const lineOf = (invitation: Invitation): string => {
  if (invitation.secret !== undefined) return encodeInvitation(invitation);
  const { host: pubkey, name: identifier, relays } = invitation;
  return naddrEncode({ kind: roomKind.kind, pubkey, identifier, relays: [...relays] });
};

/** Warns of rooms of other hosts with this name: their friends see another line. */
async function warnOfNamesakes({ invitation, relays, signal }: InRoom): Promise<void> {
  const { name, host } = invitation;
  const { events } = await relays.query([namesakeFilter(name)], { waitMs: LOOK_MS, signal });
  const isOther = events.some((event) => readRoom(event).ok && event.pubkey !== host);
  if (isOther) {
    writeNote(`another host has a room called ${name} here: your friends need exactly your line`);
  }
}

/** Keeps the relay of the host up while others use it; without a person who can stop it, for a minute. */
async function untilOthersAreDone(
  own: Relay | undefined,
  flags: HostFlags,
  signal: AbortSignal,
): Promise<void> {
  const mostLooks = isHeadless(flags) ? MOST_LOOKS : Number.POSITIVE_INFINITY;
  for (let look = 0; look < mostLooks; look++) {
    // one connection is that of this process
    if (own === undefined || own.stats().connections <= 1) return;
    if (look === 1) writeNote('your friends still use the relay here; Ctrl-C stops it');
    await systemClock.sleep(LOOK_MS, signal).catch(() => undefined);
    if (signal.aborted) return;
  }
}
