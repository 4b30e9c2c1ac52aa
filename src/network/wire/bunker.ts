/** Asks a remote signer (NIP-46, a bunker) for one signature over relays, with a key made for that question. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { decrypt, encrypt, getConversationKey } from 'nostr-tools/nip44';
import { type Clock, type Deferred, deferred, within } from '../../base/async.ts';
import { isHex32 } from '../../base/bytes.ts';
import { isJsonObject, parseJson } from '../../base/canonical-json.ts';
import { ok, RelayError, type Result, refuse } from '../../base/errors.ts';
import { createSigner, type EventDraft, parseEvent, type SignedEvent } from '../event.ts';
import type { RelaySet } from '../transport/relay-set.ts';

/** Requests and answers of NIP-46; relays keep none of them. */
const KIND = 24_133;
const MOST_RELAYS = 8;
/** The owner may have to look at it first. */
const ANSWER_MS = 180_000;
const LONGEST_ADDRESS = 4096;

export interface BunkerAddress {
  readonly signer: string;
  readonly relays: readonly string[];
  /** Good for one connection; empty where there is none. */
  readonly secret: string;
}

/** Reads `bunker://KEY?relay=wss://…&secret=…`. */
export function parseBunker(text: string): Result<BunkerAddress> {
  const wrong = (what: string) => refuse('no-bunker', 'address', what);
  const typed = text.trim();
  if (/nsec1/i.test(typed))
    return wrong('this is a secret key: type it into no page and no command');
  const [, signer = '', query = ''] = /^bunker:\/\/([0-9a-f]{64})\/?\?(.*)$/.exec(typed) ?? [];
  if (!isKey(signer) || typed.length > LONGEST_ADDRESS) {
    return wrong('it is not of the form bunker://KEY?relay=wss://…');
  }
  const parameters = new URLSearchParams(query);
  const relays = [...new Set(parameters.getAll('relay'))];
  if (relays.length === 0 || relays.length > MOST_RELAYS) {
    return wrong(`it names ${relays.length} relays, and 1 to ${MOST_RELAYS} are needed`);
  }
  return ok({ signer, relays, secret: parameters.get('secret') ?? '' });
}

/** On the curve: of any other no secret can be shared. */
function isKey(text: string): boolean {
  try {
    return isHex32(text) && secp256k1.Point.fromHex(`02${text}`) !== undefined;
  } catch {
    return false;
  }
}

export interface BunkerMeans {
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Hears of a page on which the signer wants its owner to agree first. */
  onAuth(url: string): void;
}

/** The event as its owner's signer signed it, unjudged. Throws `bunker/…` where the signer refuses or is silent. */
export async function askBunker(
  draft: EventDraft,
  { signer, secret }: BunkerAddress,
  means: BunkerMeans,
): Promise<SignedEvent> {
  const line = openLine(signer, means);
  try {
    await line.ask('connect', [signer, secret, `sign_event:${draft.kind}`]);
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
    line.close();
  }
}

interface Line {
  ask(method: string, params: readonly string[]): Promise<string>;
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
    async ask(method, params) {
      const id = `${count++}-${me.publicKey.slice(0, 16)}`;
      const waiting = deferred<Answer>();
      open.set(id, waiting);
      const content = encrypt(JSON.stringify({ id, method, params }), shared);
      const draft = { kind: KIND, created_at: Math.floor(clock.now() / 1000), content };
      await relays.publish(me.sign({ ...draft, tags: [['p', signer]] }), { signal });
      const answer = await within(waiting.promise, ANSWER_MS, clock, signal);
      open.delete(id);
      if (answer === undefined) {
        throw new RelayError('bunker/silent', 'the signer does not answer', {
          hint: 'is it running, and on the relays of its address?',
        });
      }
      const { result, error } = answer;
      if (error === '') return result;
      throw new RelayError('bunker/refused', `the signer refused: ${error.slice(0, 200)}`, {
        hint:
          'look at the signer: it may want to be asked with a new address, ' +
          'or to be told to allow it',
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
