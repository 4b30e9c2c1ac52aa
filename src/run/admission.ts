/** Who may join a run beside its founders: the rules that a spec can name, and what a join shows where it is trust. */
import { isHex32 } from '../base/bytes.ts';
import { canonicalJson, isJsonObject, type Json, type JsonObject } from '../base/canonical-json.ts';
import { choice, whole } from './field.ts';
import { type Group, keys, stake } from './spec/spec-fields.ts';

/** About half a minute of one core. */
const MOST_JOIN_WORK = 22;
/** From a key that the spec names to the one that joins. */
const MOST_HOPS = 3;
/** Characters of the events that a join shows: a stranger's join is kept beside little else. */
export const MOST_PROOF = 12_288;
/** The end of the second in which seconds need more than ten digits. */
const MOST_SECONDS = 9_999_999_999;

/** By `admission.kind`. */
export const admissionFields = {
  open: {},
  list: { keys: keys('--invite <key>', 'key that may join beside the founders') },
  work: {
    bits: whole(
      '--join-work <bits>',
      'work that a key has to do once before it may join: so many leading zero bits',
      1,
      MOST_JOIN_WORK,
    ),
  },
  stake: { least: stake('--join-stake <n>', 'stake that a key must have to join') },
  trust: {
    anchors: keys('--trust-key <key>', 'key whose word admits others; repeatable'),
    by: choice(
      '--trust-by <what>',
      'what that word is: lists of whom somebody follows (kind 3), or assertions of a rank (NIP-85, kind 30382)',
      ['follows', 'assertions'],
    ),
    hops: whole(
      '--trust-hops <n>',
      'follow lists from a key of trust to one that joins, at most',
      1,
      MOST_HOPS,
    ),
    rank: whole('--trust-rank <n>', 'least rank that an assertion must state', 0, 100),
    since: whole(
      '--trust-since <s>',
      'unix seconds: lists and assertions from before say nothing',
      0,
      MOST_SECONDS,
    ),
  },
} as const satisfies Readonly<Record<string, Group>>;

/** What trust means where nobody says more. */
export const usualTrust = { by: 'follows', hops: 1, rank: 0, since: 0 } as const;

const MEMBERS = ['content', 'created_at', 'id', 'kind', 'pubkey', 'sig', 'tags'];

/** A list of what may be events, of bounded size; whether they are, and what they say, is judged with the join. */
export const joinProof = {
  accepted: `a list of at most ${MOST_HOPS} events, ${MOST_PROOF} characters in all`,
  doc: 'the events that lead from a key that the spec names to the one that joins; none of a founder',
  read: (json: Json): readonly JsonObject[] | undefined => {
    if (!Array.isArray(json) || json.length > MOST_HOPS) return undefined;
    const list: readonly Json[] = json;
    const isEvent = (one: Json): one is JsonObject =>
      isJsonObject(one) &&
      Object.keys(one).sort().join() === MEMBERS.join() &&
      typeof one.id === 'string' &&
      isHex32(one.id);
    const events = list.filter(isEvent);
    if (events.length !== list.length) return undefined;
    return canonicalJson(events).length <= MOST_PROOF ? events : undefined;
  },
};
