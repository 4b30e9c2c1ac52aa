/** Training with friends once the run is known: flags, reports, company and result of `host` and `join`. */
import { toNpub } from '../../../node/files/keys.ts';
import type { Company } from '../../../node/friends/company.ts';
import { addressIn, type InLobby } from '../../../node/friends/in-lobby.ts';
import { keepCompany } from '../../../node/friends/lobby-run.ts';
import type { Digest, WorkerId } from '../../../run/ids.ts';
import { runIdOf } from '../../../run/spec/run-spec.ts';
import type { Invocation } from '../../../terminal/command.ts';
import { asJson, noteStream, writeOut } from '../../../terminal/output.ts';
import { type JoinExtras, type JoinedRun, type JoinFlags, trainIn } from '../run/join.ts';
import { type FriendFlags, isHeadless } from './flags.ts';

/** Returns where headless commands report: stdout is for the JSON document. */
const reportsOf = (flags: FriendFlags): Pick<JoinExtras, 'stream'> =>
  isHeadless(flags) ? { stream: noteStream } : {};

/** Trains in the run of a lobby, lets attendees in, and tells who is away. Returns undefined after Ctrl-C. */
export async function trainInLobby(
  run: Digest,
  inLobby: InLobby,
  flags: JoinFlags & FriendFlags,
  invocation: Invocation,
  onOpen?: JoinExtras['onOpen'],
): Promise<JoinedRun | undefined> {
  const { invitation, lobby, signal } = inLobby;
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  let company: Company | undefined;
  try {
    const joined = await trainIn(
      addressIn(inLobby, run),
      { ...flags, ...plainIf(flags) },
      invocation,
      {
        ...reportsOf(flags),
        relays: invitation.relays,
        // the host sent the line with the secret
        trustsAddress: invitation.secret !== undefined,
        onOpen(spec, notify) {
          onOpen?.(spec, notify);
          company = keepCompany(spec, inLobby, { notify, signal: until });
        },
        onEvent: (event) => company?.hear(event),
      },
    );
    tellResult(joined, flags, (key) => lobby.nameOf(key));
    return joined;
  } finally {
    ended.abort(new Error('ended'));
  }
}

/** Trains in a run that the line names directly. */
export async function trainAlongside(
  source: string,
  flags: JoinFlags & FriendFlags,
  invocation: Invocation,
): Promise<void> {
  const plain = { ...flags, ...plainIf(flags) };
  tellResult(await trainIn(source, plain, invocation, reportsOf(flags)), flags, () => undefined);
}

const plainIf = (flags: FriendFlags & Pick<JoinFlags, 'report'>): Pick<JoinFlags, 'report'> =>
  isHeadless(flags) ? { report: flags.report ?? 'plain' } : {};

function tellResult(
  joined: JoinedRun | undefined,
  { json }: FriendFlags,
  nameOf: (key: WorkerId) => string | undefined,
): void {
  if (json !== true || joined === undefined) return;
  const { spec, me, state, history } = joined;
  const person = (key: WorkerId) => {
    const name = nameOf(key);
    return { npub: toNpub(key), ...(name !== undefined && { name }) };
  };
  const rounds = history.map(({ index, accepted, certified }) => ({
    round: index + 1,
    result: certified?.result ?? null,
    counted: accepted.map(person),
    signers: certified?.signers.map(person) ?? [],
    root: certified?.root ?? null,
  }));
  const isSigned = rounds.every(({ signers }) => signers.length > 1 || spec.founders.length === 1);
  writeOut(
    asJson({
      run: runIdOf(spec),
      name: spec.name,
      me: person(me),
      rounds,
      counted: history.filter(({ accepted }) => accepted.includes(me)).length,
      agreed: state.round >= spec.training.rounds && rounds.length > 0 && isSigned,
    }),
  );
}
