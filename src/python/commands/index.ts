/** The commands of the Python nostrain, under the same names; `run-training` is in the command table of src/cli. */
import { aggregateRound, collectEvents, discoverCheckpoints, discoverWorkers } from './collect.ts';
import {
  buildCheckpoint,
  buildEvent,
  buildHeartbeat,
  derivePubkey,
  inspectEvent,
  publishEvent,
} from './events.ts';
import {
  aggregatePayloads,
  applyPayload,
  convertState,
  decodePayload,
  encodeDelta,
  hashState,
  initState,
  outerStep,
  trainLocal,
} from './states.ts';

/** Builders of the commands, in the order of `--help`. */
export const pythonCommands = [
  trainLocal,
  derivePubkey,
  initState,
  hashState,
  publishEvent,
  collectEvents,
  aggregateRound,
  discoverWorkers,
  discoverCheckpoints,
  convertState,
  encodeDelta,
  decodePayload,
  applyPayload,
  aggregatePayloads,
  outerStep,
  buildEvent,
  buildHeartbeat,
  buildCheckpoint,
  inspectEvent,
] as const;
