/**
 * The rules that all honest workers compute identically, as pure functions: aggregation, outer step, committee draw,
 * ownership and placement, roots, and the round machine.
 *
 * @module nostrain/consensus
 */
export { type Row, weightedMean } from './aggregate/mean.ts';
export { beaconValue, drandRoundAt } from './committee/beacon.ts';
export { createElection, drawCommittee, type Election } from './committee/committee.ts';
export {
  bestOf,
  bitsOf,
  createCandidates,
  DRAWS_PER_SEED,
  drawLots,
  type Weighted,
} from './committee/draw.ts';
export { ownedChunks, seatsAtMost } from './committee/hrw.ts';
export { cappedStakes, hasQuorum, quorumOf } from './committee/quorum.ts';
export {
  createRevealChain,
  firstRandomness,
  isReveal,
  nextRandomness,
  revealOf,
  tipOf,
} from './committee/randomness.ts';
export { nesterovStep, type OuterSettings } from './outer/nesterov.ts';
export { bytesRoot, modelRoot } from './roots.ts';
export { beginRound, step } from './round/machine.ts';
export {
  firstLedger,
  liveOf,
  type MembershipRules,
  nextLedger,
  type RosterChange,
  type RosterJoin,
} from './round/membership.ts';
export { chooseJoins, refuseChange } from './round/roster-change.ts';
export type {
  CastVote,
  Effect,
  Input,
  RoundContext,
  RoundState,
  RoundTiming,
} from './round/round-state.ts';
export { mostGuests, seatable, withFounderQuorum } from './round/seats.ts';
