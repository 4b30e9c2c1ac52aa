/** Requests one signature from a remote signer (NIP-46, a bunker) over relays, with a key made for that request. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { decrypt, encrypt, getConversationKey } from 'nostr-tools/nip44';
import { type Deferred, deferred, within } from '../../base/async.ts';
import { isHex32 } from '../../base/bytes.ts';
import { isJsonObject, parseJson } from '../../base/canonical-json.ts';
import { ok, RelayError, type Result, refuse } from '../../base/errors.ts';
import type { RelaySession } from '../attachments/relay-chunks.ts';
import { createSigner, type EventDraft, parseEvent, type SignedEvent } from '../event.ts';

/** Kind of NIP-46 requests and answers; ephemeral, so relays do not store them. */
const KIND = 24_133;
const MOST_RELAYS = 8;
/** Time to answer a request before it is sent again: a signer that restarts forgets the requests before. */
const ANSWER_MS = 60_000;
/** Times that a request is sent, so that the owner has three minutes to approve it. */
const MOST_SENT = 3;
/** Time to answer a logout, which needs no approval. */
const LOGOUT_MS = 2000;
const LONGEST_ADDRESS = 4096;
/** What the signer may show its owner about this program. */
const CLIENT = JSON.stringify({ name: 'nostrain' });

export interface BunkerAddress {
  readonly signer: string;
  readonly relays: readonly string[];
  /** One-time secret of the connection; empty without one. */
  readonly secret: string;
}

/** Reads `bunker://KEY?relay=wss://…&secret=…`. */
export function parseBunker(text: string): Result<BunkerAddress> {
  const wrong = (what: string) => refuse('no-bunker', 'address', what);
  const typed = text.trim();
  if (/nsec1/i.test(typed))
    return wrong('this is a secret key: never type it into a page or a command');
  const [, signer = '', query = ''] = /^bunker:\/\/([0-9a-f]{64})\/?\?(.*)$/.exec(typed) ?? [];
  if (!isKey(signer) || typed.length > LONGEST_ADDRESS) {
    return wrong('it must have the form bunker://KEY?relay=wss://…');
  }
  const parameters = new URLSearchParams(query);
  const relays = [...new Set(parameters.getAll('relay'))];
  if (relays.length === 0 || relays.length > MOST_RELAYS) {
    return wrong(`it names ${relays.length} relays; 1 to ${MOST_RELAYS} are allowed`);
  }
  return ok({ signer, relays, secret: parameters.get('secret') ?? '' });
}

/** Reports whether a key is on the curve; with any other no shared secret exists. */
function isKey(text: string): boolean {
  try {
    return isHex32(text) && secp256k1.Point.fromHex(`02${text}`) !== undefined;
  } catch {
    return false;
  }
}

export interface BunkerMeans extends Omit<RelaySession, 'sha256'> {
  /** Called with a page on which the owner must approve the request. */
  onAuth(url: string): void;
}

/**
 * Returns the event as the signer returned it, not verified. Throws a RelayError (`bunker/…`) if the signer refuses or
 * does not answer.
 */
export async function askBunker(
  draft: EventDraft,
  { signer, secret }: BunkerAddress,
  means: BunkerMeans,
): Promise<SignedEvent> {
  const line = openLine(signer, means);
  try {
    await line.ask('connect', [signer, secret, `sign_event:${draft.kind}`, CLIENT]);
    const { kind, created_at, tags, content } = draft;
    const answer = parseJson(
      await line.ask('sign_event', [JSON.stringify({ kind, created_at, tags, content })]),
    );
    const event = answer.ok ? parseEvent(answer.value) : answer;
    if (event.ok) return event.value;
    throw new RelayError('bunker/answer', `the signer returned no event: ${event.issue.message}`, {
      hint: 'try another signer',
    });
  } finally {
    // the key of this request is never used again; signers that do not know the method refuse it
    await line.ask('logout', [], 1, LOGOUT_MS).catch(() => undefined);
    line.close();
  }
}

interface Line {
  /** Returns the answer to a request, which is sent up to `times` times under one id. */
  ask(method: string, params: readonly string[], times?: number, waitMs?: number): Promise<string>;
  close(): void;
}

function openLine(signer: string, { relays, clock, signal, onAuth }: BunkerMeans): Line {
  const secretKey = secp256k1.utils.randomSecretKey();
  const me = createSigner(secretKey);
  const shared = getConversationKey(secretKey, signer);
  const open = new Map<string, Deferred<Answer>>();
  const subscription = relays.subscribe(
    [{ kinds: [KIND], authors: [signer], '#p': [me.publicKey] }],
    {
      onEvent: ({ content }) => {
        const answer = readAnswer(content, shared);
        if (answer === undefined) return;
        if (answer.result !== 'auth_url') open.get(answer.id)?.settle(answer);
        else if (open.has(answer.id) && /^https:\/\//.test(answer.error)) onAuth(answer.error);
      },
    },
  );
  let count = 0;
  return {
    async ask(method, params, times = MOST_SENT, waitMs = ANSWER_MS) {
      const id = `${count++}-${me.publicKey.slice(0, 16)}`;
      const waiting = deferred<Answer>();
      open.set(id, waiting);
      const content = encrypt(JSON.stringify({ id, method, params }), shared);
      let answer: Answer | undefined;
      for (let sent = 0; answer === undefined && sent < times; sent++) {
        const draft = { kind: KIND, created_at: Math.floor(clock.now() / 1000), content };
        await relays.publish(me.sign({ ...draft, tags: [['p', signer]] }), { signal });
        answer = await within(waiting.promise, waitMs, clock, signal);
      }
      open.delete(id);
      if (answer === undefined) {
        const seconds = (times * waitMs) / 1000;
        const message = `the signer did not answer ${times} requests in ${seconds} s`;
        throw new RelayError('bunker/silent', message, {
          hint: 'check that it runs and is connected to the relays of its address',
        });
      }
      const { result, error } = answer;
      if (error === '') return result;
      throw new RelayError('bunker/refused', `the signer refused: ${error.slice(0, 200)}`, {
        hint:
          'check the signer: it may need a new address, ' +
          'or its owner may have to allow the request',
      });
    },
    close: () => subscription.close(),
  };
}

interface Answer {
  readonly id: string;
  readonly result: string;
  readonly error: string;
}

function readAnswer(content: string, shared: Uint8Array): Answer | undefined {
  let text: string;
  try {
    text = decrypt(content, shared);
  } catch {
    return undefined;
  }
  const json = parseJson(text);
  if (!json.ok || !isJsonObject(json.value)) return undefined;
  const { id, result, error } = json.value;
  if (typeof id !== 'string') return undefined;
  const words = (value: unknown) => (typeof value === 'string' ? value : '');
  return { id, result: words(result), error: words(error) };
}
