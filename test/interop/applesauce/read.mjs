// Reads signed events (a JSON object on stdin, by name) with applesauce and NDK, and prints what each program sees in them.
import { readFileSync } from 'node:fs';
import NDK, { NDKArticle, NDKEvent } from '@nostr-dev-kit/ndk';
import * as common from 'applesauce-common/helpers';
import { verifyEvent } from 'nostr-tools/pure';

const { note, card, handler, record } = JSON.parse(readFileSync(0, 'utf8'));
const pointer = { kind: 37810, pubkey: note.pubkey, identifier: 'ab'.repeat(32), relays: [] };
const ndk = new NDK();
const article = NDKArticle.from(new NDKEvent(ndk, card));
console.log(
  JSON.stringify({
    valid: [note, card, handler, record].every(verifyEvent),
    applesauce: {
      splits: common.getZapSplits(note).map(({ pubkey, percent }) => [pubkey, percent]),
      title: common.getArticleTitle(card),
      summary: common.getArticleSummary(card),
      kinds: common.getHandlerSupportedKinds(handler),
      name: common.getHandlerName(handler),
      link: common.createHandlerAddressLink(handler, pointer, 'web'),
      relay: common.getRelayDiscoveryURL(record),
      open: common.getRelayDiscoveryRTT(record, 'open'),
      requirements: common.getRelayDiscoveryRequirements(record),
    },
    ndk: {
      title: article.title,
      address: article.tagAddress(),
      splits: new NDKEvent(ndk, note)
        .getMatchingTags('zap')
        .map(([, key, , weight]) => [key, weight]),
    },
  }),
);
process.exit(0);
