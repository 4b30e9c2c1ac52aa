/** The command of a host as a spec: made before the lobby opens, to refuse wrong flags, and again with the founders. */

import { basename } from 'node:path';
import type { Command } from 'commander';
import type { Untyped } from '../../../base/shape.ts';
import type { Made } from '../../../certified/make-spec.ts';
import { isDisplayName, type Lobby, type LobbyText, lockOf } from '../../../friends/lobby.ts';
import type { InLobby } from '../../../node/friends/in-lobby.ts';
import { founderFields, specWith } from '../../../node/friends/lobby-run.ts';
import type { WorkerId } from '../../../run/ids.ts';
import { documentFromFlags, settingsFromFlags } from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { addressOf } from './files.ts';
import type { HostFlags } from './flags.ts';

export interface Typed {
  readonly name: string;
  readonly flags: HostFlags;
  readonly command: Command;
}

export async function specOf(
  founders: readonly WorkerId[],
  { name, flags, command }: Typed,
  { signal, isQuiet }: { readonly signal: AbortSignal; readonly isQuiet: boolean },
): Promise<Made> {
  const corpus = addressOf(flags.corpus);
  const document: Untyped = {
    ...(corpus?.startsWith('https://') && { dataFrom: corpus.replace(/#.*$/, '') }),
    ...(flags.open && { admission: { kind: 'open' } }),
    ...founderFields(flags.quorum),
  };
  const typed = { ...documentFromFlags(command), name };
  const request = { document, typed, training: settingsFromFlags(command), corpus };
  return specWith(founders, request, { onNotice: isQuiet ? () => undefined : writeNote, signal });
}

/** Returns the lobby as it is before the start. */
export function lobbyOf(
  { invitation }: Pick<InLobby, 'invitation'>,
  { spec }: Made,
  text: LobbyText | undefined,
  { flags, command, people }: Typed & { readonly people: number },
): Lobby {
  const { host, name, secret } = invitation;
  const { base } = settingsFromFlags(command);
  const what = [spec.training.model, ...[base, flags.corpus].flatMap((each) => each ?? [])]
    .map((each) => basename(each))
    .join(', ')
    .slice(0, 64)
    .trim();
  return {
    host,
    name,
    people,
    by: flags.name,
    lock: secret === undefined ? undefined : lockOf(secret, invitation),
    what: isDisplayName(what) ? what : spec.training.model,
    text,
    run: undefined,
    names: new Map(),
  };
}
