/** What would make a run lighter: each way with the number to set, worked out by the same model. */
import { CHUNK_BYTES } from '../../../../kinds/chunk.ts';
import {
  type CostInput,
  floorSeconds,
  PUBLIC_BUDGET,
  roundCost,
  wholeSeconds,
} from '../../../network/wire/cost.ts';
import type { RelayFit } from './relay-fit.ts';

export interface AdviceInput {
  readonly input: CostInput;
  readonly workersPerIp: number;
  readonly relays: readonly RelayFit[];
}

/** Heartbeats so far apart leave the rest of a public relay's budget alone. */
const CALM_SECONDS = 120;
const MOST_PARTS = 8;
/** What most public relays take. */
const USUAL_BYTES = 65_536;

type Floor = (change: Partial<CostInput>) => number;

/** Sentences, the easiest first; empty when the relays, or public ones where none are given, carry the run as it is. */
export function advise({ input, workersPerIp, relays }: AdviceInput): readonly string[] {
  const floorOf: Floor = (change) => {
    const changed = { ...input, ...change };
    const { fixedEvents } = roundCost(changed);
    const { heartbeatSeconds } = changed;
    return floorSeconds({ ...PUBLIC_BUDGET, fixedEvents, heartbeatSeconds, workersPerIp });
  };
  const isCarried = relays.length > 0 && relays.every(({ carries }) => carries);
  const isSlow = floorOf({}) > input.roundSeconds;
  if (isCarried || (relays.length === 0 && !isSlow)) return [];
  const isRefused = relays.some(({ chunks }) => chunks === false);
  return [
    ...(isSlow ? advisePace(input, floorOf) : []),
    ...(isSlow || isRefused ? adviseSize(input, floorOf) : []),
    ...(isSlow ? adviseStripes(input, floorOf) : []),
    'a relay you run takes any rate: nostrain relay --host 0.0.0.0',
  ];
}

const within = (seconds: number): string => `rounds of ${wholeSeconds(seconds)} s on public relays`;

function advisePace({ heartbeatSeconds }: CostInput, floorOf: Floor): readonly string[] {
  const now = floorOf({});
  const calm = floorOf({ heartbeatSeconds: CALM_SECONDS });
  const isCalm = heartbeatSeconds >= CALM_SECONDS || !Number.isFinite(calm);
  return [
    ...(Number.isFinite(now)
      ? [`longer rounds: at least ${wholeSeconds(now)} s, by more --inner-steps`]
      : []),
    ...(isCalm ? [] : [`--heartbeat-interval ${CALM_SECONDS}: ${within(calm)}`]),
  ];
}

function adviseSize({ whole, payloadBytes }: CostInput, floorOf: Floor): readonly string[] {
  if (whole) {
    return payloadBytes > USUAL_BYTES ? ['--set profile=nostrain/1: no event over 64 KiB'] : [];
  }
  if (payloadBytes <= CHUNK_BYTES) return [];
  const small = floorOf({ payloadBytes: CHUNK_BYTES });
  const pace = Number.isFinite(small) ? `: ${within(small)}` : '';
  return [
    `--set packing=auto --set eventBudget=${USUAL_BYTES}: one event per worker and round${pace}`,
  ];
}

/** The fewest parts that bring the round down to what was asked, or else as far as parts can. */
function adviseStripes(
  { roundSeconds, stripe, payloadBytes, whole }: CostInput,
  floorOf: Floor,
): readonly string[] {
  if (whole || payloadBytes <= CHUNK_BYTES) return [];
  let best = { floor: floorOf({}), need: 0 };
  for (let need = Math.max(2, stripe.need + 1); need <= MOST_PARTS; need++) {
    if (best.floor <= roundSeconds) break;
    const floor = floorOf({ stripe: { need, of: need + 1 } });
    if (floor < best.floor) best = { floor, need };
  }
  const { need, floor } = best;
  if (need === 0) return [];
  return [`--set stripe=${need}/${need + 1} over ${need + 1} relays: ${within(floor)}`];
}
