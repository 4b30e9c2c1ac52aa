/**
 * Whom failed checks put out of a run: a proof shows verdicts on one contribution, and counts where those who signed them are a quorum of the
 * committee of the round after it, by the ledger alone. So proposers, members and replays find the same. Also who checks a contribution first.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/tagged-hash.ts';
import { weigh } from '../../consensus/committee/committee.ts';
import { cappedStakes, hasQuorum, quorumOf } from '../../consensus/committee/quorum.ts';
import type { Committee } from '../../run/committee.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { Drawn } from '../../run/rerun.ts';
import type { Signed } from '../../run/vote.ts';
import { listed } from './certificate.ts';
import { type Chain, electorateOf, stakesOf } from './chain.ts';
import {
  type Conviction,
  type Evidence,
  type FaultProof,
  invalid,
  type ProtocolMessage,
  type Verdict,
} from './evidence.ts';
import { known } from './terms.ts';

/** One member alone puts nobody out, however small the committee. */
const LEAST_VERDICTS = 2;

/** Juries by ledger and round: strangers may show any number of proofs that do not count. */
const juries = new WeakMap<Ledger, Map<number, Committee>>();

/** Those who judge contributions of a round: of the committee of the round after it who is still in the roster, as they weigh now. */
export function juryOf(chain: Chain, checked: number, evidence: Evidence): Committee {
  const drawn = juries.get(chain.ledger) ?? new Map<number, Committee>();
  juries.set(chain.ledger, drawn);
  const jury = drawn.get(checked) ?? drawJury(chain, checked, evidence);
  // of other rounds nobody sat in any
  if (jury.size > 0) drawn.set(checked, jury);
  return jury;
}

function drawJury(chain: Chain, checked: number, evidence: Evidence): Committee {
  const stakes = known(stakesOf(chain.ledger, evidence));
  const { committee: rules } = chain.spec;
  const sat = checked + 1;
  const seated = (): readonly WorkerId[] =>
    chain.ledger.members
      .filter(({ features }) => features?.jury?.sat.includes(sat))
      .map(({ key }) => key);
  const eligible = sat === chain.round ? electorateOf(chain, stakes).committee.members : seated();
  const weighed = weigh({ eligible, stakes, rules });
  const quorum = quorumOf(rules.quorum, weighed.length);
  return {
    round: sat,
    attempt: 0,
    ctx: '',
    size: weighed.length,
    quorum,
    members: weighed.map(({ key }) => key),
    weights: cappedStakes(
      weighed.map(({ weight }) => weight),
      quorum,
    ),
  };
}

/** Whether verdicts of these keys are enough. */
export function convicts(jury: Committee, keys: readonly WorkerId[]): boolean {
  const jurors = keys.filter((key) => jury.members.includes(key));
  return jurors.length >= LEAST_VERDICTS && hasQuorum(jury, jurors);
}

/** Whether a proof puts its culprit out in the round to come. */
export function isUpheld(chain: Chain, proof: FaultProof, evidence: Evidence): boolean {
  if (proof.kind !== 'failed-check') return true;
  const { verdicts } = proof;
  const [{ checked }] = verdicts as readonly [(typeof verdicts)[number]];
  const jury = juryOf(chain, checked, evidence);
  const seated = verdicts.filter(({ key }) => jury.members.includes(key));
  // signatures cost the most: those of strangers are never looked at
  if (
    !convicts(
      jury,
      seated.map(({ key }) => key),
    )
  )
    return false;
  return convicts(
    jury,
    seated.filter(({ event }) => evidence.isSigned(event)).map(({ key }) => key),
  );
}

/** The proofs that an outcome lists, where all of them count. */
export function upheldIn(
  chain: Chain,
  faults: readonly EventId[],
  evidence: Evidence,
): Verdict<readonly Signed<FaultProof>[]> {
  const proofs = listed(faults, 'faults', evidence, isFault);
  if (!proofs.ok) return proofs;
  const weak = proofs.value.find((proof) => !isUpheld(chain, proof, evidence));
  return weak === undefined
    ? proofs
    : invalid('weak-proof', 'faults', `the verdicts on ${weak.culprit} are not enough`);
}

const isFault = (message: ProtocolMessage): message is Signed<FaultProof> =>
  message.type === 'fault';

/** Whom the checks among these proofs put out: nothing of theirs counts any more. */
export const convictedBy = (proofs: readonly FaultProof[]): ReadonlySet<WorkerId> =>
  new Set(proofs.filter(isConviction).map(({ culprit }) => culprit));

const isConviction = (proof: FaultProof): proof is Conviction => proof.kind === 'failed-check';

/** The proofs that an outcome lists, as far as they are here. */
export const proofsIn = (
  faults: readonly string[],
  { message }: Pick<Evidence, 'message'>,
): readonly Signed<FaultProof>[] =>
  faults.flatMap((id) => {
    const proof = message(id);
    return proof?.type === 'fault' ? [proof] : [];
  });

/** Members of a committee, its author left out, in the order in which they check a contribution that was drawn. */
export function jurorsOf(
  { run, round, worker, entropy }: Drawn,
  members: readonly WorkerId[],
): readonly WorkerId[] {
  const parts = [bytes32(run), u32(round), bytes32(worker), bytes32(entropy)];
  return members
    .filter((key) => key !== worker)
    .map((key) => ({ key, lot: toHex(taggedHash('nostrain/jury/1', ...parts, bytes32(key))) }))
    .sort((a, b) => (a.lot < b.lot ? -1 : 1))
    .map(({ key }) => key);
}
