/** What the contributions of a certified round are held against: where they start from, and who sends which chunks of the parameters. */
import { type Stakes, weigh } from '../../consensus/committee/committee.ts';
import { drawnOf } from '../../consensus/committee/draw.ts';
import { liveOf } from '../../consensus/round/membership.ts';
import { entitled, widthTierOf } from '../../consensus/round/seats.ts';
import type { ChunkAssignment } from '../../run/chunk-assignment.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import { roundName } from '../../run/round-name.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Layout } from '../../tensor/params.ts';
import { assignChunks } from '../../worker/chunk-assignment.ts';
import {
  type Certified,
  membershipOf,
  type Situation,
  type StakeEvidence,
  stakesOf,
} from './chain.ts';
import { found, type Verdict } from './evidence.ts';
import { ringsAt, widthsOf } from './widths.ts';

/** A round as its contributions are held against it. */
export interface Terms extends Situation {
  /** Model root it starts from. */
  readonly base: string;
  /** Of each ring, in a run with tiers of width. */
  readonly rings?: readonly Digest[] | undefined;
  /** Of what of the model is here. */
  readonly layout: Layout;
  /** Of that round; null in a run without. */
  readonly stakes: Stakes;
}

/** The terms of the round to come. */
export function termsOf(state: Certified, evidence: StakeEvidence): Verdict<Terms> {
  const stakes = stakesOf(state.ledger, evidence);
  if (!stakes.ok) return stakes;
  const { modelRoot: base, params } = state;
  return found({ ...state, base, layout: params.layout, stakes: stakes.value });
}

/** The terms of the round before, for what comes late; null in round 0. */
export function lateTermsOf(state: Certified, evidence: StakeEvidence): Verdict<Terms | null> {
  const { spec, run, before, params } = state;
  if (before === null) return found(null);
  const stakes = stakesOf(before.ledger, evidence);
  if (!stakes.ok) return stakes;
  return found({ spec, run, ...before, layout: params.layout, stakes: stakes.value });
}

/** The value where the stakes are known to be here: those of a round are waited for before it is opened. */
export function known<T>(verdict: Verdict<T>): T {
  if (verdict.ok) return verdict.value;
  throw new TypeError('the stakes of a round that was opened are not here');
}

/** Who sends which parameters of the model in a round. */
interface Senders {
  /** Keys that may sit, whether they want to or not: every chunk has some of them as its owners. */
  readonly owners: readonly WorkerId[];
  /** Others of the roster whose rows weigh something: newcomers, and who was away. They send chunks beside the owners. */
  readonly beside: readonly WorkerId[];
}

/** Those of the keys whose rows weigh something: all of them in a run without stakes. */
export const weighingOf = (
  { committee: rules }: RunSpec,
  stakes: Stakes,
  eligible: readonly WorkerId[],
): readonly WorkerId[] => weigh({ eligible, stakes, rules }).map(({ key }) => key);

/** The senders of a round. In a run with stakes keys without enough of it send nothing: what they sent would weigh nothing. */
function sendersOf({
  spec,
  run,
  ledger,
  stakes,
}: Pick<Terms, 'spec' | 'run' | 'ledger' | 'stakes'>): Senders {
  const rules = membershipOf(spec, run);
  const drawn = drawnOf(rules, ledger);
  const isDrawn = (key: WorkerId) => drawn?.has(key) !== false;
  const owners = weighingOf(spec, stakes, entitled(ledger, liveOf(rules, ledger)).filter(isDrawn));
  const isOwner = new Set(owners);
  const roster = ledger.members.map(({ key }) => key).filter(isDrawn);
  return { owners, beside: weighingOf(spec, stakes, roster).filter((key) => !isOwner.has(key)) };
}

/** Who sends what in a round. Throws without the entropy of its ledger. */
export function assignmentOf(terms: Omit<Terms, 'base' | 'parent'>): ChunkAssignment {
  const { spec, run, round, ledger, layout, stakes } = terms;
  const { size } = widthsOf(spec) ?? layout;
  const before = divided.get(ledger);
  if (before?.size === size && before.stakes === stakes) return before.assignment;
  const { owners, fragments } = spec.training;
  const { entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const { owners: roster, beside } = sendersOf(terms);
  const tiers = new Map(ledger.members.map((member) => [member.key, widthTierOf(member)]));
  const assignment = assignChunks({
    run,
    round,
    base: entropy,
    owners,
    fragments,
    roster,
    beside,
    size,
    rings: widthsOf(spec)?.rings.map((ring, i) => ({
      ...ring,
      beside: beside.filter((key) => ringsAt(spec, tiers.get(key)!)! > i),
    })),
  });
  divided.set(ledger, { size, stakes, assignment });
  return assignment;
}

/** Dividing costs a hash for each key and chunk, and every row of a round asks for the same division. */
const divided = new WeakMap<
  Ledger,
  { readonly size: number; readonly stakes: Stakes; readonly assignment: ChunkAssignment }
>();
