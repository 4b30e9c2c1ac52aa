/**
 * The training loop and its state: rounds, ports, residuals, chunk assignment.
 *
 * @module nostrain/worker
 */
export { assignChunks } from './chunk-assignment.ts';
export type { RoundSummary, WorkerEvent } from './events.ts';
export { runWorker } from './loop.ts';
export { completePlan, type Plan } from './plan.ts';
export type { Ports, Store, Trainer, TrainTask } from './ports.ts';
export { deltaOf, takeSent } from './residual.ts';
export { genesis, type WorkerState } from './state.ts';
export { encodeState, noMembers, STATE_TENSOR_PREFIX } from './state-file.ts';
