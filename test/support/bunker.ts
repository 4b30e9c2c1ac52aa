/** A remote signer (NIP-46) for tests: answers clients that know its secret, and records the drafts that it signed. */
import { decrypt, encrypt, getConversationKey } from 'nostr-tools/nip44';
import { systemClock } from 'nostrain/base';
import { createRelaySet, createSigner, type EventDraft } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';

const KIND = 24_133;

export interface TestBunker {
  /** bunker://… */
  readonly address: string;
  /** Drafts that clients sent and it signed. */
  readonly signed: readonly EventDraft[];
  /** What clients said of themselves when they connected, and `logout` for each that left. */
  readonly told: readonly string[];
  /** Requests to sign that it lost. */
  readonly lost: readonly string[];
  close(): Promise<void>;
}

export interface BunkerHabits {
  /** Whose name it signs in. */
  readonly owner: Uint8Array;
  /** Changes a draft before it is signed. */
  readonly change?: (draft: EventDraft) => EventDraft;
  /** Sends its owner to this page first. */
  readonly authUrl?: string;
  /** Refuses to sign, with this message. */
  readonly refusal?: string;
  /** Loses every request to sign, as if it ended before it answers. */
  readonly loses?: boolean;
  /** Clients that connected, as it stores them across restarts. */
  readonly connected?: Set<string>;
}

export async function startBunker(url: string, habits: BunkerHabits): Promise<TestBunker> {
  const secretKey = habits.owner.map((byte) => byte + 100);
  const bunker = createSigner(secretKey, nativeCrypto);
  const owner = createSigner(habits.owner, nativeCrypto);
  const secret = 'only-once';
  const relays = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
  await relays.ready();
  const { connected = new Set<string>() } = habits;
  const signed: EventDraft[] = [];
  const told: string[] = [];
  const lost: string[] = [];

  const answer = (method: string, params: readonly string[], client: string) => {
    if (method === 'connect') {
      if (params[1] !== secret) return { result: '', error: 'no such secret' };
      connected.add(client);
      told.push(params[3] ?? '');
      return { result: 'ack' };
    }
    if (!connected.has(client)) return { result: '', error: 'not connected' };
    if (method === 'logout') {
      connected.delete(client);
      told.push('logout');
      return { result: 'ack' };
    }
    if (method === 'get_public_key') return { result: owner.publicKey };
    if (habits.refusal !== undefined) return { result: '', error: habits.refusal };
    const draft: EventDraft = JSON.parse(params[0]!);
    signed.push(draft);
    return { result: JSON.stringify(owner.sign(habits.change?.(draft) ?? draft)) };
  };

  const subscription = relays.subscribe([{ kinds: [KIND], '#p': [bunker.publicKey] }], {
    onEvent: ({ pubkey, content }) => {
      const shared = getConversationKey(secretKey, pubkey);
      const { id, method, params } = JSON.parse(decrypt(content, shared));
      const say = (said: object) => {
        const sealed = encrypt(JSON.stringify({ id, ...said }), shared);
        const draft = { kind: KIND, created_at: Math.floor(Date.now() / 1000), content: sealed };
        void relays.publish(bunker.sign({ ...draft, tags: [['p', pubkey]] }));
      };
      if (method === 'sign_event' && habits.loses) {
        lost.push(id);
        return;
      }
      if (method === 'sign_event' && habits.authUrl !== undefined) {
        say({ result: 'auth_url', error: habits.authUrl });
      }
      say(answer(method, params, pubkey));
    },
  });
  const query = new URLSearchParams({ relay: url, secret });
  return {
    address: `bunker://${bunker.publicKey}?${query}`,
    signed,
    told,
    lost,
    close: async () => {
      subscription.close();
      await relays.close();
    },
  };
}
