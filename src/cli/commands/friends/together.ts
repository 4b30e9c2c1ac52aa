/** Training with friends once the run is known: flags, reports, company and result of `host` and `join`. */
import { systemClock } from '../../../base/async.ts';
import { encodeRunAddress } from '../../../certified/wire/runs.ts';
import type { Invitation } from '../../../friends/line.ts';
import type { OpenLobby } from '../../../friends/open-lobby.ts';
import type { Signer } from '../../../network/event.ts';
import type { RelaySet } from '../../../network/transport/relay-set.ts';
import { toNpub } from '../../../node/files/keys.ts';
import type { Digest, WorkerId } from '../../../run/ids.ts';
import { runIdOf } from '../../../run/spec/run-spec.ts';
import { asJson, noteStream, writeOut } from '../../../terminal/output.ts';
import { type JoinExtras, type JoinedRun, type JoinFlags, trainIn } from '../run/join.ts';
import { Company } from './company.ts';
import { type FriendFlags, isHeadless } from './flags.ts';

/** A person in a lobby, with open connections to its relays. */
export interface InLobby {
  readonly invitation: Invitation;
  readonly lobby: OpenLobby;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly signal: AbortSignal;
}

/** Returns where headless commands report: stdout is for the JSON document. */
const reportsOf = (flags: FriendFlags): Pick<JoinExtras, 'stream'> =>
  isHeadless(flags) ? { stream: noteStream } : {};

/** Trains in the run of a lobby, lets attendees in, and tells who is away. Returns undefined after Ctrl-C. */
export async function trainInLobby(
  run: Digest,
  { invitation, lobby, relays, signer, signal }: InLobby,
  flags: JoinFlags & FriendFlags,
  command: Parameters<typeof trainIn>[2],
): Promise<JoinedRun | undefined> {
  const { host, secret, relays: urls } = invitation;
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  let company: Company | undefined;
  const source = encodeRunAddress({ run, author: host, relays: [] });
  try {
    const joined = await trainIn(source, { ...flags, ...plainIf(flags) }, command, {
      ...reportsOf(flags),
      relays: urls,
      onOpen(spec, notify) {
        const areProven = secret !== undefined;
        const ports = {
          lobby,
          areProven,
          relays,
          signer,
          clock: systemClock,
          signal: until,
          notify,
        };
        company = new Company(spec, ports);
        // it ends with the signal
        company.keep().catch(() => undefined);
      },
      onEvent: (event) => company?.hear(event),
    });
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
  command: Parameters<typeof trainIn>[2],
): Promise<void> {
  const plain = { ...flags, ...plainIf(flags) };
  tellResult(await trainIn(source, plain, command, reportsOf(flags)), flags, () => undefined);
}

const plainIf = (flags: FriendFlags & Pick<JoinFlags, 'report'>): Pick<JoinFlags, 'report'> =>
  isHeadless(flags) ? { report: flags.report ?? 'plain' } : {};

/** Prints the JSON document, if requested. */
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
