/**
 * Validity of the roster changes in an outcome (joins, leaves, faults, stake snapshot), judged by the ledger alone. The events
 * behind them are verified where they are read.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash } from '../../base/tagged-hash.ts';
import type { WorkerId } from '../../run/ids.ts';
import { type Ledger, nextSnapshotOf } from '../../run/ledger.ts';
import { quorumOf } from '../committee/quorum.ts';
import { isReveal } from '../committee/reveal.ts';
import { type Join, keysOf, type MembershipRules, type RosterChange } from './membership.ts';

/** The joins a proposer lists: those of members without a tip, and as many newcomers as the limit allows, chosen by lot. */
export function chooseJoins(
  rules: MembershipRules,
  ledger: Ledger,
  known: readonly Join[],
): readonly Join[] {
  const once = [...new Map(known.map((join) => [join.key, join])).values()];
  const good = once.filter((join) => refuseJoin(rules, ledger, join) === undefined);
  const inRoster = new Set(keysOf(ledger.members));
  const lots = new Map(good.map(({ key }) => [key, joinLot(ledger, key)]));
  const newcomers = good
    .filter(({ key }) => !inRoster.has(key))
    .sort((a, b) => (lots.get(a.key)! < lots.get(b.key)! ? -1 : 1));
  return [
    ...good.filter(({ key }) => inRoster.has(key)),
    ...newcomers.slice(0, joinLimit(rules, ledger)),
  ];
}

/** Newcomers are ordered by hash(round randomness, key). */
const joinLot = ({ entropy }: Ledger, key: WorkerId): string => {
  if (entropy === null) throw new RangeError('joins before the entropy of the round');
  return toHex(taggedHash('nostrain/join/1', bytes32(entropy), bytes32(key)));
};

const joinLimit = ({ joinsPerRound }: MembershipRules, { members }: Ledger): number =>
  joinsPerRound || Math.max(1, Math.floor(members.length / 4));

function refuseJoin(
  rules: MembershipRules,
  ledger: Ledger,
  { key }: Join,
): ChangeFault | undefined {
  const { admission, founders } = rules;
  if (ledger.faulted.includes(key)) return 'join-of-faulted';
  const isListed = admission.kind === 'open' || [...founders, ...admission.keys].includes(key);
  if (!isListed) return 'join-not-admitted';
  const member = ledger.members.find((each) => each.key === key);
  return member && member.tip !== null ? 'join-of-member' : undefined;
}

/** Why an outcome is not a valid successor of this ledger. The names are stable. */
export type ChangeFault =
  | 'wrong-round'
  | 'proposer-not-in-roster'
  | 'wrong-reveal'
  | 'too-few-founders'
  | 'too-many-joins'
  | 'join-twice'
  | 'join-of-faulted'
  | 'join-of-member'
  | 'join-not-admitted'
  | 'leave-not-in-roster'
  | 'fault-not-in-roster'
  | 'snapshot-out-of-turn';

/** The first rule that the roster changes of an outcome break, or undefined when they are valid. */
export function refuseChange(
  rules: MembershipRules,
  ledger: Ledger,
  change: RosterChange,
): ChangeFault | undefined {
  const roster = new Map(ledger.members.map((member) => [member.key, member]));
  const isMember = (key: WorkerId) => roster.has(key);
  const { round, proposer, reveal, joins } = change;
  if (round !== ledger.round) return 'wrong-round';
  const author = roster.get(proposer);
  if (author === undefined) return 'proposer-not-in-roster';
  if (!isReveal(author.tip, round, reveal)) return 'wrong-reveal';
  if (!change.leaves.every(isMember)) return 'leave-not-in-roster';
  if (!change.faults.every(isMember)) return 'fault-not-in-roster';
  if (!isSnapshotInTurn(rules, ledger, change)) return 'snapshot-out-of-turn';
  const keys = new Set(joins.map(({ key }) => key));
  if (keys.size !== joins.length) return 'join-twice';
  const newcomers = joins.filter(({ key }) => !isMember(key));
  if (newcomers.length > joinLimit(rules, ledger)) return 'too-many-joins';
  const founders = rules.founders.filter((key) => keys.has(key)).length;
  const needed = quorumOf(rules.committee.quorum, rules.founders.length);
  if (round === 0 && founders < needed) return 'too-few-founders';
  return joins.map((join) => refuseJoin(rules, ledger, join)).find((fault) => fault !== undefined);
}

/** The snapshot already scheduled, or any new one in a round that is a multiple of the spec's interval. */
function isSnapshotInTurn(
  { stake }: MembershipRules,
  ledger: Ledger,
  { snapshot }: RosterChange,
): boolean {
  const { round } = ledger;
  if (snapshot === (nextSnapshotOf(ledger) ?? '')) return true;
  return snapshot !== '' && !!stake.every && round > 0 && round % stake.every === 0;
}
