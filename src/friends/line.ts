/**
 * Join lines: the text that a host sends to friends. An invitation (`nostrain1…`, bech32) names relays, host, lobby and
 * secret in the TLV form of NIP-19; an naddr names a lobby without its secret.
 */
import { bech32 } from '@scure/base';
import { decode, naddrEncode } from 'nostr-tools/nip19';
import { lobby as lobbyKind } from '../../kinds/lobby.ts';
import { run as runKind } from '../../kinds/run.ts';
import { fromHex, toHex, utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import type { LobbyAddress } from './lobby.ts';

/** The lobby that a join line names. */
export interface Invitation extends LobbyAddress {
  readonly relays: readonly string[];
  /** 32 hex digits; undefined in an naddr. */
  readonly secret?: string | undefined;
}

/** The meaning of a join line: a lobby, or anything by which `run join` names a run. */
export type JoinLine =
  | { readonly type: 'lobby'; readonly invitation: Invitation }
  | { readonly type: 'run' };

const PREFIX = 'nostrain';
/** Types of the fields; 0 to 2 as in NIP-19. Fields of other types are skipped. */
const NAME = 0;
const RELAY = 1;
const HOST = 2;
const SECRET = 4;
const SECRET_BYTES = 16;
const MOST_RELAYS = 8;
/** Longest line that is decoded: eight relays of 250 bytes. */
const LONGEST = 4096;

/** Words in a line that stand for a lobby or a run, alone, after `nostr:` or inside a web address. */
const WORD = /(?:^|[^a-z0-9])((?:nostrain|naddr)1[a-z0-9]*)/i;

/** Returns the invitation as text. */
export function encodeInvitation({ host, name, relays, secret }: Invitation): string {
  const fields: readonly (readonly [number, Uint8Array])[] = [
    [NAME, utf8(name)],
    [HOST, fromHex(host)!],
    ...(secret === undefined ? [] : [[SECRET, fromHex(secret)!] as const]),
    ...relays.map((relay) => [RELAY, utf8(relay)] as const),
  ];
  const bytes = fields.flatMap(([type, value]) => [type, value.length, ...value]);
  return bech32.encode(PREFIX, bech32.toWords(Uint8Array.from(bytes)), false);
}

/** Returns the line by which friends join: an invitation, or the naddr of a lobby without a secret. */
export function joinLineOf(invitation: Invitation): string {
  if (invitation.secret !== undefined) return encodeInvitation(invitation);
  const { host: pubkey, name: identifier, relays } = invitation;
  return naddrEncode({ kind: lobbyKind.kind, pubkey, identifier, relays: [...relays] });
}

/** Parses what a friend pasted. Refuses a lobby or run that is cut off, mistyped or of another kind. */
export function decodeJoinLine(text: string): Result<JoinLine> {
  const match = WORD.exec(text.slice(0, LONGEST))?.[1];
  if (match === undefined) return ok({ type: 'run' });
  const word = match.toLowerCase();
  return word.startsWith('naddr1') ? decodeAddress(word) : decodeInvitation(word);
}

const broken = (message: string) => refuse('bad-line', 'line', message);
const CUT = 'it was cut off or mistyped';

function decodeAddress(word: string): Result<JoinLine> {
  let decoded: ReturnType<typeof decode>;
  try {
    decoded = decode(word);
  } catch {
    return broken(CUT);
  }
  if (decoded.type !== 'naddr') return broken(CUT);
  const { kind, identifier: name, pubkey: host, relays = [] } = decoded.data;
  if (kind === runKind.kind) return ok({ type: 'run' });
  if (kind !== lobbyKind.kind)
    return broken(`it names an event of kind ${kind}, not a lobby or run`);
  return ok({ type: 'lobby', invitation: { host, name, relays: relays.slice(0, MOST_RELAYS) } });
}

function decodeInvitation(word: string): Result<JoinLine> {
  let fields: ReadonlyMap<number, readonly Uint8Array[]>;
  try {
    const { prefix, bytes } = bech32.decodeToBytes(word);
    if (prefix !== PREFIX) return broken(CUT);
    fields = fieldsOf(bytes);
  } catch {
    return broken(CUT);
  }
  const texts = (type: number) => (fields.get(type) ?? []).map((each) => decoder.decode(each));
  const [name] = texts(NAME);
  const [host] = fields.get(HOST) ?? [];
  const [secret] = fields.get(SECRET) ?? [];
  const isWhole = name !== undefined && host?.length === 32;
  if (!isWhole || (secret !== undefined && secret.length !== SECRET_BYTES)) return broken(CUT);
  return ok({
    type: 'lobby',
    invitation: {
      host: toHex(host),
      name,
      relays: texts(RELAY).slice(0, MOST_RELAYS),
      secret: secret && toHex(secret),
    },
  });
}

const decoder = new TextDecoder();

/** Splits type-length-value bytes. Throws a RangeError if the last value is cut off. */
function fieldsOf(bytes: Uint8Array): ReadonlyMap<number, readonly Uint8Array[]> {
  const fields = new Map<number, readonly Uint8Array[]>();
  for (let at = 0; at < bytes.length; ) {
    const [type = 0, length = 0] = bytes.subarray(at, at + 2);
    const value = bytes.slice(at + 2, at + 2 + length);
    if (value.length < length || at + 2 > bytes.length) throw new RangeError('cut off');
    fields.set(type, [...(fields.get(type) ?? []), value]);
    at += 2 + length;
  }
  return fields;
}
