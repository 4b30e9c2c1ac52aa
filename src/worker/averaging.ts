/**
 * The plain round strategy: every worker averages the contributions that it has when the round closes; no committee
 * certifies them.
 */

import { ConfigError } from '../base/errors.ts';
import { type Mean, type MeanRule, weightedMean } from '../consensus/aggregate/mean.ts';
import type { RoundInbox } from '../network/wire/wire.ts';
import { ruleForms } from '../run/aggregation.ts';
import type { Digest } from '../run/ids.ts';
import { fullName } from '../run/worker-names.ts';
import { fullSize, type Params, stateDigest } from '../tensor/params.ts';
import { applyRound, collect, partsOf } from './apply-round.ts';
import { assignChunks } from './chunk-assignment.ts';
import { assertNotLate } from './peers.ts';
import type { Session } from './ports.ts';
import { publish } from './publish.ts';
import { assertSealed, type SealedState, type WorkerState } from './state.ts';
import type { OpenRound, RoundResult, RoundStart, RoundStrategy } from './strategy.ts';

/** The result of an averaged round, with its mean and contributions. */
export interface AveragedRound<S extends WorkerState> extends RoundResult<S> {
  readonly mean: Mean;
  readonly inbox: RoundInbox;
}

export interface OpenAveraging<S extends WorkerState> extends OpenRound<S> {
  readonly start: RoundStart;
  finish(state: S): Promise<AveragedRound<S>>;
}

export interface Averaging<S extends WorkerState> extends RoundStrategy<S> {
  open(state: S): Promise<OpenAveraging<S>>;
}

export function createAveraging<S extends WorkerState = WorkerState>(
  session: Session,
  meanOf: MeanRule = weightedMean,
): Averaging<S> {
  const { plan, ports } = session;
  assertNamed(session);
  const known = new WeakMap<Params, readonly Digest[]>();
  /** Cached, since heartbeats, the next round and its summary need the digest of the same parameters. */
  const digestsOf = ({ params }: Pick<S, 'params'>): readonly Digest[] => {
    const digests =
      known.get(params) ?? partsOf(params).map((part) => stateDigest(part, ports.createSha256));
    known.set(params, digests);
    return digests;
  };
  const digestOf = (state: Pick<S, 'params'>): Digest => digestsOf(state)[0]!;
  const sliceDigestsOf = (state: Pick<S, 'params'>) =>
    state.params.layout.slices && digestsOf(state);
  return {
    digestOf,
    sliceDigestsOf,
    async prepare(state) {
      if (state.round === 0 && !state.sent) await assertNotLate(session);
      return { state, isOver: state.round >= plan.rounds };
    },
    async open(state) {
      const { clock, wire, report } = ports;
      const startedMs = clock.now();
      const sliceDigests = sliceDigestsOf(state);
      const start = { ...startOf(state, digestOf(state), session), sliceDigests };
      const { round, folded } = state;
      const isAsync = plan.sync.strategy === 'async';
      const inbox = wire.openRound({
        round,
        base: start.base,
        assignment: start.assignment,
        sliceDigests,
        ...(isAsync && { anyBase: { folded } }),
      });
      return {
        start,
        arrived: () =>
          new Map([...inbox.contributions.values()].map((one) => [one.worker, one.eventBytes])),
        publish: (sealed) => publish(sealed, session),
        async finish(played) {
          const sealed: SealedState<S> = assertSealed(played);
          const publishedMs = clock.now();
          const reason = await collect(inbox, round, session);
          const secondsWaiting = (clock.now() - publishedMs) / 1000;
          const closing = { start, reason, startedMs, secondsWaiting, meanOf, digestsOf };
          const { state: next, mean } = await applyRound(sealed, inbox, closing, session);
          const completed = async () => {
            report({ type: 'round', ...next.rounds.at(-1)! });
            return next;
          };
          return { state: next, mean, inbox, completed };
        },
        close: () => inbox.close(),
      };
    },
  };
}

/**
 * Returns what a round starts from. The roster is the contributors to the state, in round 0 the named peers. Heartbeats
 * alone cannot agree on a roster; without one there are no owners.
 */
function startOf(state: WorkerState, base: string, { plan }: Session): RoundStart {
  const { run, fragments, peers } = plan;
  const { round, params, sent, cohort } = state;
  const roster = sent?.roster ?? cohort ?? peers;
  const owners = roster.length === 0 ? 0 : plan.owners;
  const size = fullSize(params.layout);
  return {
    base,
    roster,
    assignment: assignChunks({ run, round, base, roster, owners, fragments, size }),
    // a rule may leave contributions out, which return to the residual
    keepsDelta: ruleForms[plan.aggregation.rule] !== 'mean',
  };
}

function assertNamed({ plan: { peers }, ports: { wire } }: Session): void {
  if (peers.length === 0 || peers.includes(wire.me)) return;
  throw new ConfigError('flag/peers', `this worker, ${fullName(wire.me)}, is not among --peers`, {
    hint: 'all workers pass the same keys, including their own; `nostrain whoami` prints yours',
  });
}
