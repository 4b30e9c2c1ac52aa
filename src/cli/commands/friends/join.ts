/** `nostrain join`: joins friends by the line that their host sent, before the start, during the run, and again. */
import { Command } from 'commander';
import { systemClock, within, withScope } from '../../../base/async.ts';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import { decodeJoinLine, type Invitation, type JoinLine } from '../../../friends/line.ts';
import { OpenLobby } from '../../../friends/open-lobby.ts';
import { hintProblem, withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { connectRelays, noticeOfWaiting } from '../../../node/net/relays.ts';
import { fields } from '../../../run/options.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { addFlags } from '../../../terminal/flag-table.ts';
import { onInterrupt } from '../../../terminal/interrupt.ts';
import { settingsFromFlags } from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { fetchText } from '../../shared/chunks.ts';
import { addJoinFlags, type JoinFlags } from '../run/join.ts';
import { type FriendFlags, friendFlags } from './flags.ts';
import { trainAlongside, trainInLobby } from './together.ts';
import { waitForInvitation, waitForStart } from './waiting.ts';

/** Flags of `run join` that the help shows here; the others are accepted too. */
const SHOWN = [
  'name',
  'headless',
  'json',
  'relay',
  'set',
  'corpus',
  'base',
  'tier',
  'dir',
  'keyFile',
  'device',
  'threads',
  'allowPrivateRelays',
  'timeout',
];

/** Creates the command. */
export function joinFriends(): Command {
  const command = new Command('join')
    .description('train with friends: join by the line that the host sent; repeat it to resume')
    .argument('<line>', 'invitation, naddr1…, nostr: address, web link, or name of a run here')
    .addHelpText('after', '\nAll other flags: nostrain run join --help');
  addJoinFlags(addFlags(command, friendFlags));
  for (const option of command.options) {
    if (!SHOWN.includes(option.attributeName())) option.hideHelp();
  }
  return command.action(join);
}

/** Time to tell the others that this person leaves. */
const GOODBYE_MS = 2000;

type Flags = JoinFlags & FriendFlags;

async function join(text: string, flags: Flags, command: Command): Promise<void> {
  const line = lineOf(text);
  if (line.type === 'run') return trainAlongside(text, flags, command);
  const { relay: typed } = settingsFromFlags(command);
  return joinLobby(withRelays(line.invitation, typed, flags), flags, command);
}

function lineOf(text: string): JoinLine {
  const line = decodeJoinLine(text);
  if (line.ok) return line.value;
  throw new ConfigError('join/line', `this is not a join line: ${line.issue.message}`, {
    hint: 'copy the whole line that the host printed, from nostrain1 or naddr1 to its end',
  });
}

/**
 * Returns the invitation with the typed relays, or those of the line that may be used. A friend passed on a line with a
 * secret, so its relays may be in the network of both; an naddr may come from anybody.
 */
function withRelays(
  invitation: Invitation,
  typed: readonly string[] | undefined,
  { allowPrivateRelays }: Flags,
): Invitation {
  if (typed !== undefined) return { ...invitation, relays: typed };
  const isTrusted = invitation.secret !== undefined || allowPrivateRelays === true;
  const relays = invitation.relays.filter((url) => isTrusted || hintProblem(url) === undefined);
  if (relays.length > 0) return { ...invitation, relays };
  const named = invitation.relays.map(withoutSecrets).join(', ');
  throw new ConfigError(
    'relay/private-hint',
    named === '' ? 'the line names no relay' : `the line names only private relays: ${named}`,
    { hint: `ask the host for the relay and add --relay URL (${fields.relay.help})` },
  );
}

async function joinLobby(invitation: Invitation, flags: Flags, command: Command): Promise<void> {
  const signer = await homeSigner(flags, writeNote);
  const interrupt = onInterrupt();
  const { signal } = interrupt;
  const clock = systemClock;
  try {
    await withScope(async (scope) => {
      const connection = { onWaiting: noticeOfWaiting(writeNote), ...connectionOf(flags) };
      const relays = await connectRelays(invitation.relays, connection, signer, signal).catch(
        (cause: unknown) => {
          throw unreachable(invitation, cause);
        },
      );
      scope.defer(() => relays.close());
      const lobby = new OpenLobby(invitation, { relays, signer, clock, signal }, flags.name);
      scope.defer(() => lobby.close());
      const staying = new AbortController();
      const until = AbortSignal.any([signal, staying.signal]);
      const stay = lobby.stay(until);
      scope.defer(async () => {
        staying.abort(new Error('left'));
        await stay.catch(() => undefined);
      });
      const text = prefetch(lobby, invitation, flags, until);
      const run = await waitForStart(lobby, { clock, signal }).catch(async (error: unknown) => {
        await within(lobby.announce(true), GOODBYE_MS, clock);
        throw error;
      });
      staying.abort(new Error('started'));
      await text;
      await waitForInvitation(run, { invitation, lobby, relays, signer, signal }, connection);
      await trainInLobby(run, { invitation, lobby, relays, signer, signal }, flags, command);
    });
  } finally {
    interrupt.dispose();
  }
}

/** Returns the error for a line whose relays do not answer, with what to do about a firewall. */
function unreachable({ relays }: Invitation, cause: unknown): unknown {
  if (!(cause instanceof RelayError)) return cause;
  const names = relays.map(withoutSecrets).join(', ');
  const isNear = relays.every((url) => hintProblem(url) !== undefined);
  const port = isNear ? new URL(relays[0]!).port : '';
  return new RelayError('lobby/unreachable', `no relay of the line answers: ${names}`, {
    hint: isNear
      ? 'make sure that `nostrain host` is running, that both of you are in the same network, ' +
        `and that the firewall of the host allows incoming TCP port ${port}; or host with ` +
        '--relay and a public relay'
      : 'check your internet connection and try again, or ask the host for another relay',
    cause,
  });
}

/** Downloads the text of the lobby while its attendee waits; the join reports a failure later. */
async function prefetch(
  lobby: OpenLobby,
  { relays }: Invitation,
  flags: Flags,
  signal: AbortSignal,
): Promise<void> {
  if (flags.corpus !== undefined) return;
  while (lobby.lobby === undefined) {
    if (signal.aborted) return;
    await lobby.changed.next(signal).catch(() => undefined);
  }
  const { text, run } = lobby.lobby;
  if (text === undefined || run !== undefined) return;
  await fetchText(text, flags, { relays, signal }).catch(() => undefined);
}
