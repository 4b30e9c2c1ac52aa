// Records events of applesauce-common 6.2.0, @nostr-dev-kit/ndk 3.0.3 and nostr-tools 2.25.2 (MIT, MIT, Unlicense): install them in an empty
// folder, copy this file there, and run `node make_comments.mjs > comments.json`.
import { createCommentTagsForEvent } from 'applesauce-common/helpers';
import NDK, { NDKEvent, NDKPrivateKeySigner, NDKArticle } from '@nostr-dev-kit/ndk';
import { finalizeEvent } from 'nostr-tools/pure';
const key = (n) => new Uint8Array(32).fill(n);
const hex = (n) => Buffer.from(key(n)).toString('hex');
const at = 1_780_000_000;
const run = finalizeEvent({kind:37810, created_at: at, tags:[['d','ab'.repeat(32)]], content:'{}'}, key(1));
const c1 = finalizeEvent({kind:1111, created_at: at+1, content:'How long does a round take?', tags: createCommentTagsForEvent(run,'wss://relay.example.org')}, key(2));
const c2 = finalizeEvent({kind:1111, created_at: at+2, content:'About a minute.', tags: createCommentTagsForEvent(c1,'wss://relay.example.org')}, key(3));
const ndk = new NDK({ signer: new NDKPrivateKeySigner(hex(4)) });
const raw = async (e) => { e.created_at = at+3; await e.sign(); const r = e.rawEvent(); return {id:r.id,pubkey:r.pubkey,created_at:r.created_at,kind:r.kind,tags:r.tags,content:r.content,sig:r.sig}; };
const nrun = new NDKEvent(ndk, run);
const rep = nrun.reply(); rep.content='A comment made with NDK';
const ndkComment = await raw(rep);
const del = new NDKEvent(ndk, {kind:5, tags:[['e', ndkComment.id],['k','1111']], content:'', created_at: at});
const prof = new NDKEvent(ndk, {kind:0, content: JSON.stringify({name:'bea', lud16:'bea@example.org'}), tags:[], created_at: at});
console.log(JSON.stringify({run, applesauce:{comment:c1, reply:c2}, ndk:{comment:ndkComment, deletion: await raw(del), profile: await raw(prof)}},null,1));
process.exit(0);
