/**
 * Rounds that never wait: validators merge the best contributions, average their merges, and step when the phase ends
 * with those they have (docs/merging-validators.md). Phases follow from the clock and the run alone.
 */
import { toHex } from '../base/bytes.ts';
import { RelayError } from '../base/errors.ts';
import { hashFields } from '../base/hash.ts';
import { weightedMean } from '../consensus/aggregate/mean.ts';
import type { RoundInbox } from '../network/wire/wire.ts';
import type { ChunkAssignment } from '../run/contribution.ts';
import { roundName } from '../run/ids.ts';
import { shortName } from '../run/worker-names.ts';
import { stateDigest } from '../tensor/params.ts';
import { chunksIn, type Range } from '../tensor/partial-vector.ts';
import { applyRound, collect } from '../worker/apply-round.ts';
import { assignChunks } from '../worker/chunk-assignment.ts';
import type { Session } from '../worker/ports.ts';
import { publish } from '../worker/publish.ts';
import { assertSealed, type WorkerState } from '../worker/state.ts';
import type { OpenRound, RoundResult, RoundStart, RoundStrategy } from '../worker/strategy.ts';
import { StateAgreement } from './agreement.ts';
import { type Phases, phasesOf } from './decide.ts';
import { Exchange, type Exchanged, type MergingOptions } from './exchange.ts';

/** A group of experts whose validators merge its tensors alone. */
export interface MergingGroup {
  readonly name: string;
  /** Ranges of the parameters that the group trains, whole chunks. All others keep their bits. */
  readonly trains: readonly Range[];
}

/** Creates the strategy of a worker or, if the link's validators name it, of a validator. */
export function createMerging(
  session: Session,
  options: MergingOptions,
  group?: MergingGroup,
): RoundStrategy {
  const { plan, ports } = session;
  const { link, timing } = options;
  const agreement = new StateAgreement(session, options);
  let exchange: Exchange | undefined;
  let round = 0;
  link.onMessage = (message) => {
    agreement.take(message);
    exchange?.take(message);
  };
  link.onRefused = ({ reason, detail, worker }) =>
    ports.report({ type: 'refused', round, reason, detail, ...(worker && { worker }) });
  return {
    digestOf: (state) => agreement.digestOf(state),
    async prepare(state) {
      exchange = undefined;
      const settled = await agreement.settle(state);
      return { state: settled, isOver: settled.round >= plan.rounds };
    },
    async open(state): Promise<OpenRound> {
      const startedMs = ports.clock.now();
      round = state.round;
      link.begin();
      const phases = phasesOf(timing, round);
      const base = agreement.digestOf(state);
      const assignment = assignGroup(state, base, plan.run, group);
      const inbox = ports.wire.openRound({ round, base, assignment });
      const start = { base, roster: [], assignment, trains: group?.trains };
      const { params } = state;
      const current = new Exchange({ ...start, round, params, phases }, session, options);
      exchange = current;
      const isWanted = () => ports.clock.now() < phases.scoredMs;
      return {
        start,
        publish: (sealed) => publish(sealed, session, { isWanted }),
        async finish(played): Promise<RoundResult> {
          const waitedMs = ports.clock.now();
          await collectUntil(phases, round, inbox, session);
          const exchanged = await current.play([...inbox.contributions.values()]);
          tellMissing(round, exchanged, session);
          const secondsWaiting = (ports.clock.now() - waitedMs) / 1000;
          const closing = { start, startedMs, secondsWaiting };
          const next = await stepWith(played, exchanged, closing, session, agreement);
          const completed = async () => {
            const last = next.rounds.at(-1);
            if (last?.index === next.round - 1) ports.report({ type: 'round', ...last });
            return next;
          };
          return { state: next, completed };
        },
        close: () => inbox.close(),
      };
    },
  };
}

/** Collects contributions until the training phase is over; a round may have none. */
async function collectUntil(
  { trainedMs }: Phases,
  round: number,
  inbox: RoundInbox,
  session: Session,
) {
  const roundTimeoutMs = Math.max(0, trainedMs - session.ports.clock.now());
  const plan = { ...session.plan, sync: { strategy: 'timeout' }, roundTimeoutMs } as const;
  await collect(inbox, round, { ...session, plan }).catch((error: unknown) => {
    if (!(error instanceof RelayError) || error.code !== 'round/incomplete') throw error;
  });
}

/** Averages merges and takes the outer step; without a merge, the state stays as it is. */
async function stepWith(
  state: WorkerState,
  { merges, missing }: Exchanged,
  closing: Pick<Parameters<typeof applyRound>[2], 'startedMs' | 'secondsWaiting'> & {
    readonly start: RoundStart;
  },
  session: Session,
  agreement: StateAgreement,
): Promise<WorkerState> {
  if (merges.size === 0) return { ...state, round: state.round + 1, sent: undefined };
  // merges count once each, and their contributions are bounded already
  const plan = { ...session.plan, normBound: 0, weights: 'equal' } as const;
  const reason = missing.length > 0 ? 'timeout' : 'strict';
  const digestsOf = ({ params }: Pick<WorkerState, 'params'>) => [
    stateDigest(params, session.ports.createSha256),
  ];
  const inbox: RoundInbox = {
    contributions: merges,
    events: new Map(),
    rejections: [],
    caughtUp: true,
    pulling: () => undefined,
    giveUp: () => undefined,
    close: () => undefined,
  };
  const how = { ...closing, reason, meanOf: weightedMean, digestsOf } as const;
  const { state: next } = await applyRound(assertSealed(state), inbox, how, { ...session, plan });
  const last = { ...next.rounds.at(-1)!, digest: agreement.digestOf(next) };
  return { ...next, rounds: next.rounds.with(-1, last) };
}

/** Reports validators whose merge did not arrive before the exchange ended. */
function tellMissing(
  round: number,
  { merges, missing }: Exchanged,
  { ports: { report } }: Session,
) {
  if (missing.length === 0) return;
  const message =
    `merge_timeout: ${roundName(round)} steps with ${merges.size} merges; none came from ` +
    missing.map(shortName).join(', ');
  report({ type: 'notice', message });
}

/**
 * Returns the chunks of a round: all of the model, or those of the group. Another group has another roster, so that its
 * payloads are refused.
 */
function assignGroup(
  { params: { layout }, round }: WorkerState,
  base: string,
  run: string,
  group: MergingGroup | undefined,
): ChunkAssignment {
  const { size } = layout;
  const whole = { run, round, base, roster: [], owners: 0, fragments: 1, size };
  if (group === undefined) return assignChunks(whole);
  const moving = Uint32Array.from(group.trains.flatMap(chunksIn)).sort();
  const digest = toHex(hashFields('nostrain/merging/group', group.name, ...moving));
  return { digest, moving, chunksOf: () => moving, most: moving.length };
}
