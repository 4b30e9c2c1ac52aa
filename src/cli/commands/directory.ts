/** `nostrain directory`: finds the holders of an object, and publishes attestations about holders. */

import { isHex32 } from '../../base/bytes.ts';
import { ConfigError, RelayError, safeLine } from '../../base/errors.ts';
import { buildAttestation } from '../../network/wire/holders.ts';
import {
  findHolders,
  type HolderSearchResult,
  unixSeconds,
} from '../../node/checkpoint/directory.ts';
import { homeSigner } from '../../node/files/keys.ts';
import { readKey } from '../../run/field.ts';
import { isPolicyName } from '../../run/placement-policy.ts';
import { fullName } from '../../run/worker-names.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import { severalOr, text, toggle, whole, withDefault } from '../../terminal/flag-table.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../terminal/output.ts';
import { directoryFlags, withDirectory } from '../shared/holder-flags.ts';
import { keyFlags } from '../shared/signed-document.ts';
import { withRelays } from '../shared/with-relays.ts';

const DAY = 86_400;

const directoryAttest = defineCommand({
  name: 'attest',
  help:
    'attest the region and trust tier of a holder; prints the event, and publishes it ' +
    'with --relay',
  args: [['<holder>', 'npub1… or 64 hex digits']],
  flags: {
    region: text('<name>', 'region of the holder'),
    tier: text('<name>', 'trust tier of the holder'),
    days: withDefault(whole('<n>', 'days the attestation is valid', 1, 3650), 90),
    relay: severalOr('none', '<url>', 'relay to publish it on, repeatable'),
    ...keyFlags,
    ...connectionFlags,
  },
  async run({ region, tier, days, relay, ...flags }, { args: [text], signal }) {
    const holder = readKey(text);
    const names = [region, tier].filter((name) => name !== undefined);
    if (holder === undefined || names.length === 0 || !names.every(isPolicyName)) {
      throw new ConfigError('flag/attest', 'there is nothing to attest', {
        hint:
          'give a key, and --region or --tier with a name of a-z, 0-9, dot, dash and ' +
          'underscore',
      });
    }
    const signer = await homeSigner(flags, writeNote);
    const event = signer.sign(
      buildAttestation({ holder, region, tier }, unixSeconds(), days * DAY),
    );
    writeOut(`${JSON.stringify(event)}\n`);
    if (relay.length === 0) return;
    const reach = { connection: connectionOf(flags), signer, signal };
    const outcomes = await withRelays(relay, reach, ({ relays }) => relays.publish(event));
    if (outcomes.some(({ status }) => status === 'accepted')) return;
    const words = outcomes.map((each) => `${each.relay}: ${each.message}`).join('; ');
    throw new RelayError('directory/not-published', `no relay accepted the attestation: ${words}`, {
      hint: 'name other relays, or send the printed line with any Nostr program',
    });
  },
});

interface FindDocument {
  readonly object: string;
  /** `relays` if relays knew enough holders, else `holders`. */
  readonly by: HolderSearchResult['by'];
  /** Number of holders queried. */
  readonly asks: number;
  /** Number of consecutive queries that led to the last holder. */
  readonly hops: number;
  readonly holders: readonly {
    readonly key: string;
    readonly region: string;
    readonly tier: string;
    /** Addresses of its holder server. */
    readonly contacts: readonly string[];
    /** Unix seconds. */
    readonly expiresAt: number;
  }[];
}

const directoryFind = defineCommand({
  name: 'find',
  help: 'print the holders that announce an object',
  args: [['<digest>', 'digest that `checkpoint pack` printed: 64 hex digits']],
  flags: {
    enough: withDefault(whole('<n>', 'stop the search after n holders', 1, 16), 3),
    json: toggle('print JSON'),
    ...directoryFlags,
  },
  async run(flags, { args: [digest], signal }) {
    if (!isHex32(digest)) {
      throw new ConfigError('directory/digest', `${safeLine(digest)} is not a digest`, {
        hint: 'give the 64 hex digits that `nostrain checkpoint pack` or `list` prints',
      });
    }
    if (flags.directory.length === 0) {
      throw new ConfigError('flag/directory', 'no relay or holder server to ask', {
        hint: 'name relays or holder servers with --directory URL',
      });
    }
    const searchResult = await withDirectory(flags, { signal }, (search) =>
      findHolders(digest, flags.enough, search),
    );
    const { by, asks, hops } = searchResult;
    const holders = searchResult.holders.map(({ key, region, tier, contacts, expiresAt }) => ({
      key,
      region,
      tier,
      contacts,
      expiresAt,
    }));
    const document: FindDocument = { object: digest, by, asks, hops, holders };
    writeOut(flags.json ? asJson(document) : words(document));
    if (holders.length > 0) return;
    writeNote('no holder of this object is known');
    process.exitCode = exitCodes.failed.code;
  },
});

const words = ({ holders }: FindDocument): string =>
  holders
    .map(
      ({ key, region, tier, contacts }) =>
        `${contacts.join(' ')}  ${fullName(key)}  region ${region}, tier ${tier} (self-reported)\n`,
    )
    .join('');

export const directory = defineGroup(
  'directory',
  'find the holders of an object; attest the region and trust tier of a holder',
  [directoryFind, directoryAttest],
);
