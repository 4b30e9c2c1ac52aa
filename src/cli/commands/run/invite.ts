/** `nostrain run invite`: publishes a founder's invitation of a key, which the key's join then carries. */
import { assertInviting, invitationTo } from '../../../certified/invitations.ts';
import { unixSeconds } from '../../../node/checkpoint/directory.ts';
import { homeSigner, toNpub } from '../../../node/files/keys.ts';
import { fields } from '../../../run/options.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionFlags } from '../../../terminal/connection.ts';
import { setting, text } from '../../../terminal/flag-table.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { privateRelaysFlag } from '../../shared/member-flags.ts';
import { findRun, publishEvent, withRelaysOf } from '../../shared/with-relays.ts';
import { typedKey } from '../../shared/worker-flag.ts';

export const inviteToRun = defineCommand({
  name: 'invite',
  help: 'let keys join a run that you founded, now or while it trains',
  args: [
    ['<run>', 'file, naddr1…, link or name of the run'],
    ['<keys...>', 'public keys to invite, as npub or hex'],
  ],
  flags: {
    allowPrivateRelays: privateRelaysFlag,
    keyFile: text('<file>', 'secret key of the founder (default: in your data folder)'),
    secKey: text('<key>', 'secret key as hex or nsec; other users of this machine can see it'),
    relay: setting(fields.relay),
    ...connectionFlags,
  },
  async run(flags, { args: [source, texts], signal }) {
    const keys = texts.map((key) => typedKey(key, 'flag/key'));
    const signer = await homeSigner(flags, writeNote);
    const target = await findRun(source, flags, { signer, signal });
    assertInviting(target.spec, signer.publicKey);
    await withRelaysOf(target, { signer, signal }, async (relaySession) => {
      for (const key of keys) {
        const invitation = signer.sign(invitationTo(key, unixSeconds()));
        await publishEvent(invitation, 'invitation', relaySession);
        writeOut(`invited ${toNpub(key)} to ${target.spec.name}\n`);
      }
    });
  },
});
