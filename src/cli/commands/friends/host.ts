/** `nostrain host`: opens a lobby, makes the run with the people in it, and trains as one of them. */
import type { Relay } from '../../../../relay/server.ts';
import { type Scope, systemClock, withScope } from '../../../base/async.ts';
import type { Made } from '../../../certified/make-spec.ts';
import { encodeRunAddress } from '../../../certified/wire/runs.ts';
import { type Invitation, joinLineOf } from '../../../friends/line.ts';
import type { Signer } from '../../../network/event.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { type KeptLobby, keepLobby, openKeptLobby } from '../../../node/files/kept-lobby.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { takeKeyLock } from '../../../node/files/run-folder.ts';
import { enterLobby, type InLobby } from '../../../node/friends/in-lobby.ts';
import { startRun } from '../../../node/friends/lobby-run.ts';
import { noticeOfWaiting } from '../../../node/net/relays.ts';
import type { Digest } from '../../../run/ids.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import { canAsk } from '../../../terminal/ask.ts';
import { defineCommand, type Invocation } from '../../../terminal/command.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { ALL_FIELDS, specFlags } from '../../../terminal/flag-table.ts';
import { documentFromFlags, settingsFromFlags, specOptions } from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { workerFlags } from '../../../terminal/worker-flags.ts';
import { tabLines } from '../../shared/tab-link.ts';
import { assertWebAddress } from '../handler.ts';
import { type JoinFlags, joinRun } from '../run/join.ts';
import { addressOf, packFiles, pushFiles, type SharedFiles, withFiles } from './files.ts';
import { type HostFlags, hostFlags, isHeadless } from './flags.ts';
import { openRelays } from './relays.ts';
import { lobbyOf, specOf, type Typed } from './start.ts';
import { trainInLobby } from './together.ts';
import { createWelcome, showLine, warnOfNamesakes } from './waiting.ts';

/** Time between two polls of who uses the relay, and the most polls in a headless command. */
const POLL_MS = 5000;
const MOST_POLLS = 12;

export const hostFriends = defineCommand({
  name: 'host',
  help: 'train with friends: print the line that they join by, and start together',
  more: ALL_FIELDS,
  args: [['<name>', 'name of the run']],
  flags: {
    ...hostFlags,
    ...workerFlags('your data folder'),
    ...specFlags(specOptions.filter(({ row }) => row.flag === undefined)),
  },
  run: (flags, invocation) =>
    host(invocation.args[0], { ...joinRun().opts<JoinFlags>(), ...flags }, invocation),
});

async function host(name: string, flags: HostFlags, invocation: Invocation): Promise<void> {
  const { command, signal } = invocation;
  if (flags.tab !== undefined) assertWebAddress(flags.tab);
  const signer = await homeSigner(flags, writeNote);
  await withScope(async (scope) => {
    const kept = await openKept({ name, flags, command }, signer);
    const lock = await takeKeyLock(dataHome(), `lobby ${name}`, signer.publicKey);
    scope.defer(() => lock.release());
    if (kept.run !== undefined) writeNote(`${name} has started: resuming`);
    const opened = await openLobby({ name, flags, command }, kept, { signer, signal, scope });
    const run = kept.run ?? (await opened.begin());
    const { corpus } = opened;
    const { relays } = opened.inLobby.invitation;
    const naddr = encodeRunAddress({ run, author: signer.publicKey, relays });
    const tellTab = (spec: RunSpec, notify: (line: string) => void) =>
      tabLines(spec, naddr, flags.tab).forEach(notify);
    const typed = corpus === undefined ? flags : { ...flags, corpus };
    const joined = await trainInLobby(run, opened.inLobby, typed, invocation, tellTab);
    if (joined !== undefined) await untilOthersAreDone(opened.localRelay, flags, signal);
  });
}

const asksIn = (flags: HostFlags): boolean => !isHeadless(flags) && canAsk();

function openKept({ name, flags, command }: Typed, signer: Signer): Promise<KeptLobby> {
  const { relay, ...settings } = settingsFromFlags(command);
  const { corpus, quorum, open: isOpen, people } = flags;
  // --name is the name of the host here
  const document = { ...documentFromFlags(command), name };
  const typed = JSON.stringify({ document, settings, corpus, quorum, open: isOpen });
  return openKeptLobby({ host: signer.publicKey, name, people, typed, isOpen: isOpen === true });
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
  const { relay: given = [], base } = settingsFromFlags(typed.command);
  const wishes = { relays: given, lan: flags.lan === true, asks: asksIn(flags), signal };
  const { urls, local: localRelay, kept: relay } = await openRelays(name, kept, wishes);
  scope.defer(() => localRelay?.close());
  const invitation: Invitation = { ...kept, relays: urls };
  const connection = { onWaiting: noticeOfWaiting(writeNote), ...connectionOf(flags) };
  const entrance = { name: flags.name, connection, signer, signal, scope };
  const inLobby = await enterLobby(invitation, entrance);
  const keeping = { ...kept, relays: urls, relay };
  const { mirror } = flags;
  const corpus = addressOf(flags.corpus);
  if (made === undefined) return { inLobby, localRelay, corpus, begin: async () => kept.run! };
  const packing = { name, corpus, base, mirror, relays: urls, signal };
  const files = await packFiles(made.spec, packing);
  await keepLobby(keeping);
  const begin = async (): Promise<Digest> => {
    const run = await receive(inLobby, typed, { made, files, people: kept.people });
    await keepLobby({ ...keeping, run });
    return run;
  };
  return { inLobby, localRelay, corpus: files.corpus, begin };
}

/** Announces the lobby, shows the join line, waits for people and starts the run. */
async function receive(
  inLobby: InLobby,
  typed: Typed,
  { made, files, people }: { made: Made; files: SharedFiles; people: number },
): Promise<Digest> {
  const { invitation, lobby, relays, signer, signal } = inLobby;
  const { mirror } = typed.flags;
  await warnOfNamesakes(inLobby, signal);
  const hasKeys = asksIn(typed.flags);
  const welcome = createWelcome(lobby, people, hasKeys);
  try {
    return await startRun(inLobby, {
      announced: lobbyOf(inLobby, made, files.offer, { ...typed, people }),
      isEnough: (present) => welcome.isEnough(present),
      async onOpen() {
        await showLine(joinLineOf(invitation), hasKeys);
        await pushFiles(files, mirror, { relays, signer, signal });
        welcome.listen();
      },
      async specOf(founders) {
        const { spec } = await specOf(founders, typed, { signal, isQuiet: true });
        return withFiles(spec, files, { mirror, signal });
      },
    });
  } finally {
    welcome.close();
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
