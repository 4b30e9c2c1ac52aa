/** Makes the run of a lobby: its spec before anybody is there, to refuse wrong flags, and again with its founders. */
import { basename } from 'node:path';
import type { Command } from 'commander';
import { systemClock } from '../../../base/async.ts';
import { RelayError } from '../../../base/errors.ts';
import { type Made, makeSpec } from '../../../certified/make-spec.ts';
import { publishRun } from '../../../certified/wire/runs.ts';
import { isDisplayName, type Lobby, lockOf } from '../../../friends/lobby.ts';
import type { Person } from '../../../friends/open-lobby.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { openBase, startFrom } from '../../../node/pretrained/base-model.ts';
import type { Digest, WorkerId } from '../../../run/ids.ts';
import { runIdOf } from '../../../run/spec/run-spec.ts';
import type { Untyped } from '../../../run/spec/spec-readers.ts';
import { documentFromFlags, settingsFromFlags } from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { dataOfSpec } from '../../shared/spec-data.ts';
import type { HostFlags } from './flags.ts';
import { addressOf, type SharedText, withText } from './text.ts';
import type { InLobby } from './together.ts';

/** Rounds after which a founder that was never seen would lose its seat: longer than friends train. */
const LONG = 4096;
/** Time for the proposer of a round, who may be away. */
const VIEW_MS = 5000;

/** The command that a host typed. */
export interface Typed {
  readonly name: string;
  readonly flags: HostFlags;
  readonly command: Command;
}

/**
 * Returns the fields by which founders keep their seats while they are away: a round needs most of them, and a minority
 * may be absent.
 */
export const founderFields = (quorum: 'cft' | 'bft' = 'cft') => ({
  committee: { quorum },
  liveRounds: LONG,
  absentRounds: LONG,
  timing: { viewMs: VIEW_MS },
});

/** Returns the spec with these founders, and what the host typed. */
export async function specOf(
  founders: readonly WorkerId[],
  { name, flags, command }: Typed,
  { signal, isQuiet }: { readonly signal: AbortSignal; readonly isQuiet: boolean },
): Promise<Made> {
  const onNotice = isQuiet ? () => undefined : writeNote;
  const corpus = addressOf(flags.corpus);
  const document: Untyped = {
    ...(corpus?.startsWith('https://') && { dataFrom: corpus.replace(/#.*$/, '') }),
    ...(flags.open && { admission: { kind: 'open' } }),
    ...founderFields(flags.quorum),
  };
  return makeSpec({
    document,
    typed: { ...documentFromFlags(command), name, founders },
    training: settingsFromFlags(command),
    me: founders[0]!,
    isGuarded: true,
    ...(await dataOfSpec({ corpus }, { onNotice, signal })),
    start: async (settings) =>
      startFrom(await openBase({ ...settings, tiers: 0 }, { onNotice, signal }), settings),
  });
}

/** Returns the lobby as it is before the start. */
export function lobbyOf(
  { invitation }: Pick<InLobby, 'invitation'>,
  { spec }: Made,
  text: SharedText | undefined,
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
    text: text?.offer,
    run: undefined,
    names: new Map(),
  };
}

/** Publishes the run with these people as founders, and names it in the lobby. Returns its id. */
export async function startRun(
  present: readonly Person[],
  { invitation, lobby, relays, signer, signal }: InLobby,
  typed: Typed,
  { text, announced }: { readonly text: SharedText | undefined; readonly announced: Lobby },
): Promise<Digest> {
  const { mirror } = typed.flags;
  const founders = [invitation.host, ...present.map(({ key }) => key)];
  const made = await specOf([...new Set(founders)], typed, { signal, isQuiet: true });
  const spec = await withText(made.spec, text, { mirror, signal });
  const run = runIdOf(spec);
  const session = { relays, clock: systemClock, sha256: nativeSha256, signal };
  const sign = signer.sign.bind(signer);
  const { accepted, failed } = await publishRun(spec, undefined, { ...session, sign });
  if (accepted.length === 0) {
    const words = failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
    throw new RelayError('run/not-published', `no relay accepted the run: ${words}`, {
      hint: 'run the same command again; your friends are still in the lobby',
    });
  }
  const names = new Map(
    present.flatMap(({ key, name }) => (name === undefined ? [] : [[key, name] as const])),
  );
  await lobby.describe({ ...announced, run, names });
  return run;
}
