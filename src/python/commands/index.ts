/** The commands of the Python nostrain, by the same names; `run-training` is the command line's own, which also trains other models. */
import type { Command } from 'commander';
import { aggregatePayloads } from './aggregate-payloads.ts';
import { aggregateRound } from './aggregate-round.ts';
import { applyPayload } from './apply-payload.ts';
import { buildCheckpointCommand } from './build-checkpoint.ts';
import { buildEvent } from './build-event.ts';
import { buildHeartbeat } from './build-heartbeat.ts';
import { collectEvents } from './collect-events.ts';
import { convertState } from './convert-state.ts';
import { decodePayloadCommand } from './decode-payload.ts';
import { derivePubkey } from './derive-pubkey.ts';
import { discoverCheckpoints } from './discover-checkpoints.ts';
import { discoverWorkers } from './discover-workers.ts';
import { encodeDelta } from './encode-delta.ts';
import { hashState } from './hash-state.ts';
import { initState } from './init-state.ts';
import { inspectEvent } from './inspect-event.ts';
import { outerStep } from './outer-step.ts';
import { publishEvent } from './publish-event.ts';
import { trainLocal } from './train-local.ts';

/** What builds each command, in the order of `--help`. */
export const pythonCommands: readonly (() => Command)[] = [
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
  decodePayloadCommand,
  applyPayload,
  aggregatePayloads,
  outerStep,
  buildEvent,
  buildHeartbeat,
  buildCheckpointCommand,
  inspectEvent,
];
