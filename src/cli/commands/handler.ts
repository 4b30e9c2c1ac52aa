/** `nostrain handler publish`: makes clients of Nostr open runs in a page and a tab (NIP-89). */
import { systemClock } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import { newestOf } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { homeSigner } from '../../node/files/keys.ts';
import { buildHandler } from '../../social/sites.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import { severalOr, text, toggle } from '../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { keyFlags } from '../shared/signed-document.ts';
import { tabFlag } from '../shared/tab-link.ts';
import { publishEvent, withRelays } from '../shared/with-relays.ts';

const publish = defineCommand({
  name: 'publish',
  help: 'publish the profile of the program and its handler event (NIP-89); use a key of its own',
  flags: {
    relay: severalOr('none', '<url>', 'relay to publish to, repeatable'),
    page: text('<url>', 'address at which people open the run page'),
    tab: tabFlag,
    site: text('<name>', 'name of the Nostr site that `page --publish` wrote under this key'),
    ...keyFlags,
    json: toggle('print the events as JSON'),
    ...connectionFlags,
  },
  async run(flags, { signal }) {
    const { relay: urls, page, tab, site, json } = flags;
    const [relay] = urls;
    if (relay === undefined || page === undefined) {
      throw new ConfigError('flag/relay', 'a handler needs a page to open and a relay', {
        hint: 'give --page https://… and --relay wss://…',
      });
    }
    for (const url of [page, tab]) if (url !== undefined) assertWebAddress(url);
    const signer = await homeSigner(flags, writeNote);
    const now = Math.floor(systemClock.now() / 1000);
    const about = { author: signer.publicKey, page, tab, site, relay };
    const events = buildHandler(about, now).map((draft) => signer.sign(draft));
    const reach = { connection: connectionOf(flags), signer, signal };
    await withRelays(urls, reach, async (session) => {
      if (await hasOtherProfile(session.relays, signer.publicKey, signal)) {
        throw new ConfigError('handler/profile', 'this key has a profile of its own', {
          hint: 'make one for the program: `nostrain keygen -o FILE`, then --key-file FILE',
        });
      }
      for (const event of events) await publishEvent(event, 'handler', session);
    });
    writeOut(
      json ? asJson(events) : events.map(({ kind, id }) => `kind ${kind}  ${id}\n`).join(''),
    );
  },
});

/** Milliseconds to wait for the profile of the key. */
const PROFILE_MS = 5000;

/** Reports whether the key has a profile that is not ours: publishing would replace that of a person. */
async function hasOtherProfile(
  relays: RelaySet,
  key: string,
  signal: AbortSignal,
): Promise<boolean> {
  const filter = { kinds: [0], authors: [key] };
  const { events } = await relays.query([filter], { waitMs: PROFILE_MS, signal });
  const profile = newestOf(events).get(key);
  return profile !== undefined && !profile.content.startsWith('{"name":"nostrain"');
}

export const handler = defineGroup('handler', 'make Nostr clients open runs in your page', [
  publish,
]);

/** Throws `flag/page` for an address that is not http(s) or has a fragment of its own. */
export function assertWebAddress(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (/^https?:$/.test(url?.protocol ?? '') && url?.hash === '') return;
  throw new ConfigError('flag/page', `${text} is not the web address of a page`, {
    hint: 'give https://… without a # part',
  });
}
