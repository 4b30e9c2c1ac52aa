/**
 * Fault proofs as the slashing registry (src/chain/contracts/SlashingRegistry.sol) takes them: of each of the two signed events the parts that are not
 * the same for all of its kind. The contract puts the event together again, so that its id is the hash of exactly what was signed.
 */
import { fromHex, isHex32, utf8 } from '../../base/bytes.ts';
import {
  canonicalJson,
  isJsonObject,
  type Json,
  type JsonObject,
} from '../../base/canonical-json.ts';
import type { SignedEvent } from '../../network/event.ts';
import { callData, type Dynamic, dynamicBytes, encodeTuple } from '../evm/abi.ts';
import { toData } from '../evm/hex.ts';
import type { DeployedRegistry, Transaction } from './registry-calls.ts';

const STATEMENT =
  '(uint8,uint64,uint64,uint64,uint64,bytes32,uint64,uint64,uint64,int64,bytes32,bytes32,bytes32,bytes,bytes,bytes,uint256,uint256)';
const SLASH = `slash(bytes32,${STATEMENT},${STATEMENT})`;

/** Forms of the contract, with the members of a content that it is told as text: before, between and after those that it reads. */
const FORMS = {
  prepare: { form: 0n, texts: [[], [], []] },
  commit: { form: 1n, texts: [['features'], ['unlisted'], []] },
  proposal: { form: 2n, texts: [['ballots', 'body', 'bytes'], ['prepares', 'root'], []] },
  ballot: {
    form: 3n,
    texts: [
      ['preparedAttempt', 'preparedDigest', 'preparedProposal', 'preparedView', 'prepares'],
      [],
      [],
    ],
  },
  manifest: {
    form: 4n,
    texts: [
      ['base', 'bytes', 'codec', 'examples', 'features', 'hash', 'need'],
      ['payload', 'prev', 'root', 'roster'],
      ['shards', 'steps'],
    ],
  },
} as const;

type Form = (typeof FORMS)[keyof typeof FORMS];

/** The transaction with which `from` shows two contradicting events of one key; undefined where the contract has no form for one of them. */
export function slashCall(
  { contract }: Pick<DeployedRegistry, 'contract'>,
  from: string,
  [first, second]: readonly [SignedEvent, SignedEvent],
): Transaction | undefined {
  const [a, b] = [statementOf(first), statementOf(second)];
  const key = fromHex(first.pubkey);
  if (!a || !b || !key || first.pubkey !== second.pubkey) return undefined;
  return { from, to: toData(contract), data: callData(SLASH, key, a, b) };
}

/** An event as the contract's `Statement`. */
function statementOf({ kind, created_at, tags, content, sig }: SignedEvent): Dynamic | undefined {
  const said = objectOf(content);
  if (said === undefined) return undefined;
  const form = formOf(kind, said);
  if (form === undefined) return undefined;
  const [nonce, work] = tagOf(tags, 'nonce');
  const [inner, middle, end] = form.texts.map((names) => membersOf(said, names));
  const { run, round, attempt, view, justify = 0, parent, ctx, root, digest = root } = said;
  const words = [
    form.form,
    count(created_at),
    count(tagOf(tags, 'expiration')[0]),
    count(nonce),
    count(work),
    hex(run),
    count(round),
    count(attempt),
    count(view),
    justify === -1 ? MINUS_ONE : count(justify),
    hex(parent),
    hex(ctx),
    hex(digest),
  ];
  const texts = [inner!, middle!, end!.slice(0, -1)].map((text) => dynamicBytes(utf8(text)));
  const all = [...words, ...texts, fromHex(sig.slice(0, 64)), fromHex(sig.slice(64))];
  const known = all.filter((each) => each !== undefined);
  return known.length === all.length ? { encoded: encodeTuple(known) } : undefined;
}

/** As a signed word. */
const MINUS_ONE = 2n ** 256n - 1n;

/** A number that the contract has room for; 0 where there is none. */
const count = (value: Json | undefined = 0): bigint | undefined =>
  /^\d{1,19}$/.test(String(value)) ? BigInt(String(value)) : undefined;

const NOTHING = '00'.repeat(32);

/** 32 bytes; zeros where there are none. */
const hex = (value: Json | undefined = NOTHING): Uint8Array | undefined =>
  typeof value === 'string' && isHex32(value) ? fromHex(value) : undefined;

function objectOf(content: string): JsonObject | undefined {
  try {
    const json = JSON.parse(content) as Json;
    return isJsonObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

function formOf(kind: number, { step, type }: JsonObject): Form | undefined {
  if (kind === 7810) return FORMS.manifest;
  if (kind === 7813) return step === 'commit' ? FORMS.commit : FORMS.prepare;
  if (kind === 7814) return FORMS.proposal;
  return kind === 7818 && type === 'ballot' ? FORMS.ballot : undefined;
}

const tagOf = (tags: SignedEvent['tags'], name: string): readonly string[] =>
  tags.find(([each]) => each === name)?.slice(1) ?? [];

/** Members as they are inside the serialization of the event, where quotes are escaped; each with the comma after it. */
function membersOf(said: JsonObject, names: readonly string[]): string {
  const text = names
    .filter((name) => said[name] !== undefined)
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(said[name]!)},`)
    .join('');
  return JSON.stringify(text).slice(1, -1);
}
