/**
 * `nostrain run leave`: removes a key from the roster of a run. Its worker stops at the outcome that lists the leave.
 */
import { systemClock } from '../../../base/async.ts';
import { ConfigError } from '../../../base/errors.ts';
import type { Chain } from '../../../certified/decisions/chain.ts';
import { standOf } from '../../../certified/history/catch-up.ts';
import { buildMessage, controlLifetime } from '../../../certified/wire/certified-events.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { roundName } from '../../../run/ids.ts';
import { fields } from '../../../run/options.ts';
import { keptSeconds, runIdOf } from '../../../run/spec/run-spec.ts';
import { fullName } from '../../../run/worker-names.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionFlags } from '../../../terminal/connection.ts';
import { roundFlag, setting, text } from '../../../terminal/flag-table.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { standPorts } from '../../shared/beacon.ts';
import { followFlags, privateRelaysFlag } from '../../shared/member-flags.ts';
import { findRun, publishEvent, withRelaysOf } from '../../shared/with-relays.ts';

export const leaveRun = defineCommand({
  name: 'leave',
  help: 'leave the roster of a run; a running worker stops by itself',
  args: [['<run>', 'file, naddr1…, link or name of the run']],
  flags: {
    allowPrivateRelays: privateRelaysFlag,
    last: roundFlag('<round>', 'last round to take part in (default: the one in progress)'),
    keyFile: text('<file>', 'secret key of the worker (default: in your data folder)'),
    secKey: text('<key>', 'secret key as hex or nsec; other users of this machine can see it'),
    relay: setting(fields.relay),
    ...connectionFlags,
    ...followFlags,
  },
  async run(flags, { args: [source], signal }) {
    const signer = await homeSigner(flags, writeNote);
    const target = await findRun(source, flags, { signer, signal });
    const { spec } = target;
    await withRelaysOf(target, { signer, signal }, async (relaySession) => {
      const ports = await standPorts(spec, flags);
      const stand = await standOf(spec, { ...relaySession, ...ports });
      const last = lastOf(stand, signer.publicKey, flags.last);
      const lifetime = controlLifetime(systemClock, keptSeconds(spec));
      const message = buildMessage({ type: 'leave', run: runIdOf(spec), last }, lifetime);
      await publishEvent(signer.sign(message), 'leave event', relaySession);
      const outcome = `the first outcome that lists it, of ${roundName(last)} or a later one`;
      writeOut(`asked to leave ${spec.name}: its worker stops with ${outcome}\n`);
    });
  },
});

/** Returns the requested round, or the one in progress; the key must have joined by then. Throws `run/not-a-member`. */
function lastOf({ spec, round, ledger }: Chain, me: string, requested: number | undefined): number {
  const member = ledger.members.find(({ key }) => key === me);
  if (member === undefined) {
    throw new ConfigError(
      'run/not-a-member',
      `key ${fullName(me)} is not in the roster of ${spec.name}`,
      {
        hint: 'name the key of the member with --key-file FILE, and relays that have the run',
      },
    );
  }
  return Math.max(requested ?? round, member.joined);
}
