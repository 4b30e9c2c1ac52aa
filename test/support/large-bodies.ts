/** Builds outcomes with any number of contributions, and proposals of them; the contributions do not exist. */
import { type Outcome, outcomeDigest, type Proposal } from 'nostrain/run';

const hex = (number: number): string => number.toString(16).padStart(64, '0');
const [run, parent, root] = ['1', '2', '3'].map((digit) => digit.repeat(64)) as [
  ...[string, string, string],
];

/** Returns an outcome of round 3 with `rows` accepted contributions, and one rejected contribution per reason. */
export const outcomeWith = (rows: number, reasons: readonly string[] = []): Outcome => ({
  ...{ run, round: 3, parent, base: root, result: 'final', time: 1_790_000_000 },
  ...{
    proposer: root,
    reveal: root,
    ballots: [],
    features: {},
    rowSize: 0,
    modelRoot: root,
    ledgerRoot: root,
  },
  accepted: Array.from({ length: rows }, (_, i) => ({ index: i, late: false, manifest: hex(i) })),
  rejected: reasons.map((reason, i) => ({ index: i, manifest: hex(100_000 + i), reason })),
  ...{ votes: null, joins: [], leaves: [], faults: [] },
});

export const proposalOf = (outcome: Outcome): Proposal => ({
  ...{ type: 'proposal', step: 'prepare', justify: -1, prepares: [], ballots: [] },
  ...{ run, round: outcome.round, attempt: 0, parent, ctx: root, view: 0 },
  ...{ digest: outcomeDigest(outcome), outcome },
});

/** Returns a proposal whose outcome is too large for one event, and so is in chunks. */
export const largeProposal = (): Proposal => proposalOf(outcomeWith(1400));
