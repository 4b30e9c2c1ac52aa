/** `nostrain host`: opens a lobby, makes the run with the people in it, and trains as one of them. */
import { randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { naddrEncode } from 'nostr-tools/nip19';
import { lobby as lobbyKind } from '../../../../kinds/lobby.ts';
import type { Relay } from '../../../../relay/server.ts';
import { type Scope, systemClock, withScope } from '../../../base/async.ts';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import type { Made } from '../../../certified/make-spec.ts';
import { encodeInvitation, type Invitation } from '../../../friends/line.ts';
import { isLobbyName, namesakeFilter, readLobby } from '../../../friends/lobby.ts';
import { OpenLobby } from '../../../friends/open-lobby.ts';
import type { Signer } from '../../../network/event.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { type KeptLobby, keepLobby, readKeptLobby } from '../../../node/files/kept-lobby.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { listLocalRuns } from '../../../node/files/local-runs.ts';
import { takeKeyLock } from '../../../node/files/run-folder.ts';
import { connectRelays, noticeOfWaiting } from '../../../node/net/relays.ts';
import type { Digest } from '../../../run/ids.ts';
import { canAsk } from '../../../terminal/ask.ts';
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
import { openRelays } from './relays.ts';
import { lobbyOf, specOf, startRun, type Typed } from './start.ts';
import { addressOf, packText, pushText, type SharedText } from './text.ts';
import { type InLobby, trainInLobby } from './together.ts';
import { gather, showLine } from './waiting.ts';

const SECRET_BYTES = 16;
/** Time between two polls of who uses the relay, and the most polls in a headless command. */
const POLL_MS = 5000;
const MOST_POLLS = 12;

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
      const lock = await takeKeyLock(dataHome(), `lobby ${name}`, signer.publicKey);
      scope.defer(() => lock.release());
      if (kept.run !== undefined) writeNote(`${name} has started: resuming`);
      const opened = await openLobby({ name, flags, command }, kept, { signer, signal, scope });
      const run = kept.run ?? (await opened.begin());
      const { corpus } = opened;
      const joined = await trainInLobby(run, opened.inLobby, withCorpus(flags, corpus), command);
      if (joined !== undefined) await untilOthersAreDone(opened.localRelay, flags, signal);
    });
  } finally {
    interrupt.dispose();
  }
}

const withCorpus = (flags: HostFlags, corpus: string | undefined): HostFlags =>
  corpus === undefined ? flags : { ...flags, corpus };

/**
 * Returns the lobby that this machine hosts under this name, or a new one. Throws a ConfigError if it was opened with
 * other settings (`lobby/other`), or if the name is taken (`lobby/taken`).
 */
async function openKept({ name, flags, command }: Typed, signer: Signer): Promise<KeptLobby> {
  if (!isLobbyName(name)) {
    throw new ConfigError('flag/name', `${JSON.stringify(name)} cannot be the name of a run`, {
      hint: 'use 1 to 32 letters, digits, dots, dashes and underscores, such as winter',
    });
  }
  const { relay, ...settings } = settingsFromFlags(command);
  const { corpus, quorum, open } = flags;
  // --name is the name of the host here
  const document = { ...documentFromFlags(command), name };
  const typed = JSON.stringify({ document, settings, corpus, quorum, open });
  const kept = await readKeptLobby(name);
  if (kept === undefined) return newLobby(name, flags, signer, typed);
  if (kept.host !== signer.publicKey) {
    throw new ConfigError('lobby/taken', `${name} was opened on this machine with another key`, {
      hint: 'use that key (--key-file FILE), or choose another name',
    });
  }
  const people = flags.people ?? kept.people;
  if (kept.run !== undefined || kept.typed === typed) return { ...kept, people };
  throw new ConfigError('lobby/other', `${name} was opened with other settings`, {
    hint: 'run the same command as before, or choose another name',
  });
}

async function newLobby(
  name: string,
  { people, open }: HostFlags,
  signer: Signer,
  typed: string,
): Promise<KeptLobby> {
  if (people === undefined) {
    throw new ConfigError('flag/people', 'the number of people is missing', {
      hint: 'add it, you included: --people 3',
    });
  }
  const taken = (await listLocalRuns()).some((run) => run.name === name);
  if (taken) {
    throw new ConfigError('lobby/taken', `a run called ${name} is already on this machine`, {
      hint: `choose another name; \`nostrain show ${name}\` shows that run`,
    });
  }
  const secret = open ? undefined : toHex(randomBytes(SECRET_BYTES));
  return { host: signer.publicKey, name, relays: [], secret, people, typed };
}

interface Opened {
  readonly inLobby: InLobby;
  /** The relay that this process runs. */
  readonly localRelay: Relay | undefined;
  /** The training data of the host. */
  readonly corpus: string | undefined;
  /** Waits for people and starts the run; returns its id. */
  begin(): Promise<Digest>;
}

/** Opens relays and lobby. Flags that make no valid run are refused before anything else happens. */
async function openLobby(
  typed: Typed,
  kept: KeptLobby,
  { signer, signal, scope }: Pick<InLobby, 'signer' | 'signal'> & { readonly scope: Scope },
): Promise<Opened> {
  const { name, flags } = typed;
  const made =
    kept.run === undefined
      ? await specOf([signer.publicKey], typed, { signal, isQuiet: false })
      : undefined;
  const asks = !isHeadless(flags) && canAsk();
  const { relay: given = [] } = settingsFromFlags(typed.command);
  const wishes = { relays: given, lan: flags.lan === true, asks, signal };
  const { urls, local: localRelay, kept: relay } = await openRelays(name, kept, wishes);
  scope.defer(() => localRelay?.close());
  const invitation: Invitation = { ...kept, relays: urls };
  const connection = { onWaiting: noticeOfWaiting(writeNote), ...connectionOf(flags) };
  const relays = await connectRelays(urls, connection, signer, signal);
  scope.defer(() => relays.close());
  const lobby = new OpenLobby(
    invitation,
    { relays, signer, clock: systemClock, signal },
    flags.name,
  );
  scope.defer(() => lobby.close());
  const inLobby: InLobby = { invitation, lobby, relays, signer, signal };
  const keeping = { ...kept, relays: urls, relay };
  const { mirror } = flags;
  const corpus = addressOf(flags.corpus);
  if (made === undefined) return { inLobby, localRelay, corpus, begin: async () => kept.run! };
  const text = await packText(made.spec, { name, corpus, mirror, relays: urls, signal });
  await keepLobby(keeping);
  const begin = async (): Promise<Digest> => {
    const run = await receive(inLobby, typed, { made, text, people: kept.people });
    await keepLobby({ ...keeping, run });
    return run;
  };
  return { inLobby, localRelay, corpus: text?.path ?? corpus, begin };
}

/** Announces the lobby, shows the join line, waits for people and starts the run. */
async function receive(
  inLobby: InLobby,
  typed: Typed,
  { made, text, people }: { made: Made; text: SharedText | undefined; people: number },
): Promise<Digest> {
  const { invitation, lobby, relays, signer, signal } = inLobby;
  const { flags } = typed;
  await warnOfNamesakes(inLobby);
  const announced = lobbyOf(inLobby, made, text, { ...typed, people });
  if (!(await lobby.describe(announced))) {
    throw new RelayError('lobby/refused', 'no relay accepted the lobby', {
      hint: '`nostrain relays check URL` says what a relay allows; name others with --relay URL',
    });
  }
  const staying = new AbortController();
  const stay = lobby.stay(AbortSignal.any([signal, staying.signal]));
  try {
    const hasKeys = !isHeadless(flags) && process.stdin.isTTY === true;
    await showLine(lineOf(invitation), hasKeys);
    if (text !== undefined) await pushText(text, flags.mirror, { relays, signer, signal });
    const present = await gather(lobby, { people, hasKeys, clock: systemClock, signal });
    return await startRun(present, inLobby, typed, { text, announced });
  } finally {
    staying.abort(new Error('started'));
    await stay.catch(() => undefined);
  }
}

const lineOf = (invitation: Invitation): string => {
  if (invitation.secret !== undefined) return encodeInvitation(invitation);
  const { host: pubkey, name: identifier, relays } = invitation;
  return naddrEncode({ kind: lobbyKind.kind, pubkey, identifier, relays: [...relays] });
};

/** Warns of lobbies of other hosts with this name: their friends see another line. */
async function warnOfNamesakes({ invitation, relays, signal }: InLobby): Promise<void> {
  const { name, host } = invitation;
  const { events } = await relays.query([namesakeFilter(name)], { waitMs: POLL_MS, signal });
  const isOther = events.some((event) => readLobby(event).ok && event.pubkey !== host);
  if (isOther) {
    writeNote(`another host has a lobby called ${name} here: your friends need exactly your line`);
  }
}

/** Keeps the relay of the host up while others use it; without a person who can stop it, for a minute. */
async function untilOthersAreDone(
  localRelay: Relay | undefined,
  flags: HostFlags,
  signal: AbortSignal,
): Promise<void> {
  const mostPolls = isHeadless(flags) ? MOST_POLLS : Number.POSITIVE_INFINITY;
  for (let poll = 0; poll < mostPolls; poll++) {
    // one connection is that of this process
    if (localRelay === undefined || localRelay.stats().connections <= 1) return;
    if (poll === 1) writeNote('your friends still use the relay here; Ctrl-C stops it');
    await systemClock.sleep(POLL_MS, signal).catch(() => undefined);
    if (signal.aborted) return;
  }
}
