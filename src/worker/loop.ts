/**
 * The worker loop: plays rounds (open, train, publish, finish) until the run ends or is aborted. Saves the state before
 * sending a contribution and after every round, so that a killed worker resumes with the same bytes.
 */
import { heartbeatTelemetry } from '../run/contribution.ts';
import { createAveraging } from './averaging.ts';
import { createHeartbeatPublisher, type HeartbeatPublisher } from './heartbeat-publisher.ts';
import { hearPeers, waitForWorkers } from './peers.ts';
import type { Session } from './ports.ts';
import { publishWorked } from './publish.ts';
import { measuredBefore, type WorkerState } from './state.ts';
import type { RoundStrategy } from './strategy.ts';
import { PhaseKeeper, trainOrResume } from './train.ts';
import { watchRun } from './watch.ts';

/** Plays the remaining rounds and returns the final state; uses plain averaging unless another strategy is given. */
export async function runWorker<S extends WorkerState>(
  start: S,
  session: Session,
  strategy: RoundStrategy<S> = createAveraging(session),
): Promise<S> {
  const heartbeats = createHeartbeatPublisher(session);
  const watch = watchRun(session, heartbeats.publishNow);
  const keeper = new PhaseKeeper(session);
  const at: LoopState<S> = { start, state: start };
  try {
    while (await playNext(at, strategy, { heartbeats, watch, keeper }, session));
    return at.state;
  } finally {
    await watch.stop();
    await heartbeats.stop();
  }
}

/** The loop's only reference to the state, which may be gigabytes, so that old states can be freed. */
interface LoopState<S> {
  readonly start: S;
  state: S;
}

interface Parts {
  readonly heartbeats: HeartbeatPublisher;
  readonly watch: ReturnType<typeof watchRun>;
  readonly keeper: PhaseKeeper;
}

/** Plays one round; returns false if the run is over. */
async function playNext<S extends WorkerState>(
  at: LoopState<S>,
  strategy: RoundStrategy<S>,
  { heartbeats, watch, keeper }: Parts,
  session: Session,
): Promise<boolean> {
  const { state, isOver } = await strategy.prepare(at.state);
  at.state = state;
  const { round } = state;
  const members = strategy.membersIn?.(state);
  const cohort = members === undefined ? state.cohort : undefined;
  const sliceDigests = strategy.sliceDigestsOf?.(state);
  const features = {
    ...heartbeatTelemetry(session.ports.trainer.device, measuredBefore(state)),
    ...(sliceDigests && { widths: { rings: sliceDigests } }),
  };
  const content = { round, digest: strategy.digestOf(state), cohort, features };
  watch.remember(content);
  if (isOver && state === at.start) return false;
  if (isOver) {
    await hearPeers(state, heartbeats.send(content), session);
    return false;
  }
  const isFirst = round === 0 && !state.sent;
  heartbeats.expect(members ?? 0);
  heartbeats.hurry(isFirst);
  heartbeats.update(content);
  if (isFirst) await waitForWorkers(session, heartbeats.publishNow);
  heartbeats.hurry(false);
  at.state = await playRound(state, strategy, { watch, keeper }, session);
  return true;
}

async function playRound<S extends WorkerState>(
  state: S,
  strategy: RoundStrategy<S>,
  { watch, keeper }: Pick<Parts, 'watch' | 'keeper'>,
  session: Session,
): Promise<S> {
  // open the round first, so that arriving contributions are verified and decoded during training
  const round = await strategy.open(state);
  watch.follow(state.round, round);
  try {
    const trained = await trainOrResume(state, round.start, session, keeper);
    const sealed = trained && (await publishWorked(trained, round, session));
    const result = await round.finish(sealed ?? state);
    await session.ports.store.save(result.state);
    return await result.completed();
  } finally {
    round.close();
  }
}
