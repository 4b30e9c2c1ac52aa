/** `nostrain join`: joins friends by the line that their host sent, before the start, during the run, and again. */
import { withScope } from '../../../base/async.ts';
import { RelayError } from '../../../base/errors.ts';
import type { Invitation } from '../../../friends/line.ts';
import type { OpenLobby } from '../../../friends/open-lobby.ts';
import { hintProblem, withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { enterLobby } from '../../../node/friends/in-lobby.ts';
import { invitationIn } from '../../../node/friends/join-line.ts';
import { attend } from '../../../node/friends/waiting.ts';
import { noticeOfWaiting } from '../../../node/net/relays.ts';
import { defineCommand, type Invocation } from '../../../terminal/command.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { settingsFromFlags } from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { fetchText } from '../../shared/chunks.ts';
import { finishJoinHelp, type JoinFlags, joinFlags } from '../run/join.ts';
import { type FriendFlags, friendFlags } from './flags.ts';
import { trainAlongside, trainInLobby } from './together.ts';
import { tellAnchors, tellsWaiting } from './waiting.ts';

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

export const joinFriends = defineCommand({
  name: 'join',
  help: 'train with friends: join by the line that the host sent; repeat it to resume',
  more: 'All other flags: nostrain run join --help',
  args: [['<line>', 'invitation, naddr1…, nostr: address, web link, or name of a run here']],
  flags: { ...friendFlags, ...joinFlags },
  finish(command) {
    finishJoinHelp(command);
    for (const option of command.options) {
      if (!SHOWN.includes(option.attributeName())) option.hideHelp();
    }
  },
  async run(flags, invocation) {
    const [text] = invocation.args;
    const { relay: relays } = settingsFromFlags(invocation.command);
    const { allowPrivateRelays } = flags;
    const invitation = await invitationIn(text, { relays, allowPrivateRelays });
    if (invitation === undefined) return trainAlongside(text, flags, invocation);
    return joinLobby(invitation, flags, invocation);
  },
});

type Flags = JoinFlags & FriendFlags;

async function joinLobby(
  invitation: Invitation,
  flags: Flags,
  invocation: Invocation,
): Promise<void> {
  const { signal } = invocation;
  const signer = await homeSigner(flags, writeNote);
  await withScope(async (scope) => {
    const connection = { onWaiting: noticeOfWaiting(writeNote), ...connectionOf(flags) };
    const entrance = { name: flags.name, connection, signer, signal, scope };
    const inLobby = await enterLobby(invitation, entrance).catch((cause: unknown) => {
      throw unreachable(invitation, cause);
    });
    const { lobby } = inLobby;
    const run = await attend(inLobby, {
      connection,
      meanwhile: (until) => prefetch(lobby, invitation, flags, until),
      onWait: tellsWaiting(lobby),
      onShut: (anchors) => tellAnchors(lobby, anchors),
    });
    await trainInLobby(run, inLobby, flags, invocation);
  });
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
