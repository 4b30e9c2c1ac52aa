/**
 * The building blocks of `nostrain/certified`, for explorers, replayers and tests: converting events to messages and
 * back, genesis, reading from relays, replay, evidence, features, checkpoints.
 *
 * @module nostrain/certified/parts
 */

export { gainOf, type MeasuredGain } from '../worker/gains.ts';
export { listVotes } from './decisions/certificate.ts';
export {
  type Certified,
  type Chain,
  chainHeadOf,
  type Electorate,
  electorateOf,
  genesisOf,
  membershipOf,
  openingOf,
  stakesOf,
  startOf,
  withEntropy,
} from './decisions/chain.ts';
export {
  assignmentOf,
  openAccepted,
  type RoundParameters,
  roundParametersOf,
  unwrapRuling,
} from './decisions/contributions.ts';
export { createEvidenceStore, type Gathered } from './decisions/evidence.ts';
export { applyOutcome, applyToChain } from './decisions/outcomes.ts';
export { hasModel, pathOf, type ReplayedRound, replay, withoutModel } from './decisions/replay.ts';
export { Judgment, rowsFor } from './features/screening.ts';
export { fromCheckpoint } from './history/catch-up.ts';
export { collectEvents } from './history/from-relays.ts';
export { gather, specsOf } from './history/gather.ts';
export { decisionsOf, fetchHistory } from './history/history.ts';
export { shardSettings } from './make-spec.ts';
export { explain } from './records/explain.ts';
export { opinionOf } from './rounds/compose.ts';
export { createReporter } from './rounds/events.ts';
export { formatEntry, parseRoundState } from './rounds/journal.ts';
export { type CertifiedState, certifiedMembers } from './state.ts';
export { buildMessage, type ProtocolMessage, toProtocolMessage } from './wire/certified-events.ts';
export { type CheckpointChunks, packBytes, toCheckpointClaim } from './wire/checkpoints.ts';
export { Control } from './wire/control.ts';
export { buildFault, proofBody } from './wire/faults.ts';
export {
  buildMember,
  buildProposal,
  buildVote,
  draftDelegation,
  readDelegation,
  rebuildEvent,
  toProposal,
  toVote,
} from './wire/messages.ts';
export { parseRunName, type RunName } from './wire/run-names.ts';
export { buildRun, decodeRunAddress, encodeRunAddress, toRun } from './wire/runs.ts';
export { buildSnapshot, findSnapshot } from './wire/snapshots.ts';
