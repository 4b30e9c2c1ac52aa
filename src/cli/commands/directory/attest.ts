/** `nostrain directory attest`: says in one's own name in which region and trust tier a holder is. */

import { Command } from 'commander';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import { buildAttestation } from '../../../network/wire/holders.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { readKey } from '../../../run/field.ts';
import { isPlaceName } from '../../../run/holder.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionOf,
} from '../../../terminal/connection.ts';
import { repeatable, whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { unixSeconds } from '../../shared/directory.ts';
import { withRelays } from '../../shared/with-relays.ts';

interface Flags extends ConnectionFlags {
  readonly region?: string;
  readonly tier?: string;
  readonly days: number;
  readonly relay: readonly string[];
  readonly keyFile?: string;
  readonly secKey?: string;
}

const DAY = 86_400;

export const directoryAttest = (): Command =>
  addConnectionFlags(
    new Command('attest')
      .description(
        'vouch for region and tier of a holder; prints the event, publishes with --relay',
      )
      .argument('<holder>', 'npub1… or 64 hex digits')
      .option('--region <name>', 'region of the holder')
      .option('--tier <name>', 'trust tier of the holder')
      .addOption(whole('--days <n>', 'days that it holds for', 1, 3650).default(90))
      .addOption(repeatable('--relay <url>', 'where to publish it, repeatable').default([], 'none'))
      .option('--key-file <file>', 'secret key to sign with (default: in your data folder)')
      .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it'),
  ).action((holder: string, flags: Flags) =>
    interruptibly((signal) => attest(holder, flags, signal)),
  );

async function attest(text: string, flags: Flags, signal: AbortSignal): Promise<void> {
  const { region, tier, days, relay } = flags;
  const holder = readKey(text);
  const names = [region, tier].filter((name) => name !== undefined);
  if (holder === undefined || names.length === 0 || !names.every(isPlaceName)) {
    throw new ConfigError('flag/attest', 'that is nothing to vouch for', {
      hint: 'give a key and --region or --tier with a name of a-z, 0-9, dot, dash and underscore',
    });
  }
  const signer = await homeSigner(flags, writeNote);
  const event = signer.sign(buildAttestation({ holder, region, tier }, unixSeconds(), days * DAY));
  writeOut(`${JSON.stringify(event)}\n`);
  if (relay.length === 0) return;
  const reach = { connection: connectionOf(flags), signer, signal };
  const outcomes = await withRelays(relay, reach, ({ relays }) => relays.publish(event));
  if (outcomes.some(({ status }) => status === 'accepted')) return;
  const words = outcomes.map((each) => `${each.relay}: ${each.message}`).join('; ');
  throw new RelayError('directory/not-published', `no relay took it: ${words}`, {
    hint: 'name other relays, or send the printed line with any Nostr program',
  });
}
