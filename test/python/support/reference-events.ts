/** Signed events of kinds 33333, 33334 and 33335 for tests of their parsers. */
import type { SignedEvent, Signer } from 'nostrain/network';
import { buildCheckpoint, buildGradient, buildHeartbeat } from 'nostrain/python/parts';
import { createLayout, type Params } from 'nostrain/tensor';

const layout = createLayout([{ name: 'w', shape: [2] }]);
export const stateOf = (...values: readonly number[]): Params => ({
  layout,
  values: Float64Array.from(values),
});

interface About {
  readonly run?: string;
  readonly round?: number;
  /** Unix seconds. */
  readonly createdAt?: number;
}

const NOW = 1_700_000_000;

/** The event carries the improvement -Δ, by default 1, -1. */
export function gradientEvent(
  signer: Signer,
  { run = 'demo', round = 0, createdAt = NOW }: About = {},
  { delta = stateOf(-1, 1), examples }: { delta?: Params; examples?: number } = {},
): SignedEvent {
  const own = { run, round, worker: signer.publicKey, base: 'ab'.repeat(32), steps: 5, examples };
  return signer.sign(buildGradient(own, delta, { ratio: 1 }, createdAt).draft);
}

export function heartbeatEvent(
  signer: Signer,
  { run = 'demo', round = 0, createdAt = NOW }: About = {},
  { intervalSeconds = 60, leaving = false } = {},
): SignedEvent {
  const nothing = { examples: undefined, digest: undefined, cohort: undefined };
  const lists = { capabilities: ['gradient-event'], relays: [] };
  const worker = signer.publicKey;
  const heartbeat = { ...nothing, ...lists, worker, round, intervalSeconds, leaving, createdAt };
  return signer.sign(buildHeartbeat(run, heartbeat));
}

/** In slot `round` modulo 4. */
export function checkpointEvent(
  signer: Signer,
  { run = 'demo', round = 0, createdAt = NOW }: About = {},
  { state = stateOf(round, 1), momentum = stateOf(0.5, 0.25) } = {},
): SignedEvent {
  const history = { rounds: [], lateGradients: [], lateReconciliations: [], lateGradientSince: 0 };
  const draft = buildCheckpoint(
    {
      ...{ run, round, state, momentum, ...history },
      worker: signer.publicKey,
      nextRound: round + 1,
      roundsCompleted: round + 1,
      slot: round % 4,
      runtime: 'linear-regression',
      relays: [],
      updatedAt: createdAt,
    },
    createdAt,
  );
  return signer.sign(draft);
}
