/** Reads the line by which a friend joins, and decides which of its relays may be used. */
import { ConfigError } from '../../base/errors.ts';
import { decodeJoinLine, type Invitation } from '../../friends/line.ts';
import { hintProblem, parseRelayUrls, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { fields } from '../../run/options.ts';
import { kindOf } from '../files/atomic-file.ts';
import type { LocateOptions } from '../join/find-run.ts';

/**
 * Returns the lobby that a line names; undefined for text that may name a run. Throws a ConfigError (`join/line`,
 * `relay/private-hint`) if the line is cut off or names no relay that may be used.
 */
export async function invitationIn(
  text: string,
  options: LocateOptions,
): Promise<Invitation | undefined> {
  if ((await kindOf(text)) === 'file') return undefined;
  const line = decodeJoinLine(text);
  if (!line.ok) {
    throw new ConfigError('join/line', `this is not a join line: ${line.issue.message}`, {
      hint: 'copy the whole line that the host printed, from nostrain1 or naddr1 to its end',
    });
  }
  return line.value.type === 'lobby' ? withRelays(line.value.invitation, options) : undefined;
}

/**
 * Returns the invitation with the given relays, or those of the line that may be used. A friend passed on a line with a
 * secret, so its relays may be in the network of both; an naddr may come from anybody.
 */
function withRelays(
  invitation: Invitation,
  { relays: given, allowPrivateRelays }: LocateOptions,
): Invitation {
  if (given !== undefined) return { ...invitation, relays: parseRelayUrls(given) };
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
