// Records events of applesauce 6.2.0 and @nostr-dev-kit/ndk 3.0.3, of each kind that we read and that these programs build: install them in an empty
// folder, copy this file there, and run `node make_events.mjs > events.json`.
import NDK, { NDKArticle, NDKPrivateKeySigner, NDKRelayList } from '@nostr-dev-kit/ndk';
import { NoteFactory } from 'applesauce-common/factories';
import { DeleteFactory, MailboxesFactory, ProfileFactory } from 'applesauce-core/factories';
import { finalizeEvent, getPublicKey } from 'nostr-tools/pure';

const AT = 1_780_000_000;
const key = (byte) => new Uint8Array(32).fill(byte);
const [ANNA, BEA] = [2, 4];
const sign = async (factory, at) =>
  finalizeEvent({ ...(await factory), created_at: AT + at }, key(ANNA));
const ndk = new NDK({ signer: new NDKPrivateKeySigner(Buffer.from(key(BEA)).toString('hex')) });
const signNdk = async (event, at) => {
  event.created_at = AT + at;
  await event.sign();
  return event.rawEvent();
};

const note = await sign(NoteFactory.create('A note made with applesauce'), 1);
const gone = await sign(NoteFactory.create('A note that its author deletes'), 2);
const splits = [
  { pubkey: getPublicKey(key(ANNA)), weight: 8, relay: 'wss://relay.example.org' },
  { pubkey: getPublicKey(key(BEA)), weight: 3, relay: 'wss://relay.example.org' },
];
const article = new NDKArticle(ndk, { kind: 30_023, tags: [['d', 'story']] });
article.title = 'A story';
article.content = 'An article made with NDK';
const relayList = new NDKRelayList(ndk);
relayList.writeRelayUrls = ['wss://write.example.org'];
relayList.readRelayUrls = ['wss://read.example.org'];
const outboxes = ['wss://out.example.org'];
const vanish = { kind: 62, created_at: AT + 9, tags: [['relay', 'ALL_RELAYS']], content: '' };
console.log(
  JSON.stringify(
    {
      applesauce: {
        note,
        gone,
        deletion: await sign(DeleteFactory.fromEvents([gone]), 3),
        zapNote: await sign(NoteFactory.create('Zap the model').zapSplit({ splits }), 4),
        profile: await sign(ProfileFactory.create().name('anna').lightningAddress('anna@example.org'), 5),
        mailboxes: await sign(MailboxesFactory.create({ outboxes }), 6),
      },
      ndk: {
        article: await signNdk(article, 7),
        relayList: await signNdk(relayList, 8),
      },
      nostrTools: { vanish: finalizeEvent(vanish, key(BEA)) },
    },
    null,
    1,
  ),
);
process.exit(0);
