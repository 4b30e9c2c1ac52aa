/** The onnxruntime-node runtime for trainer threads. Importing this file fails if onnxruntime-node is not installed. */
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { Runtime } from '../../trainer/runtime.ts';

/** onnxruntime-node as the trainer uses it. */
export const nodeRuntime: Runtime = {
  Tensor,
  writesInPlace: true,
  createSession: (model, device, threads, resident = [], constants = {}) =>
    InferenceSession.create(model, {
      executionProviders: [device],
      ...(resident.length > 0 && {
        preferredOutputLocation: Object.fromEntries(resident.map((name) => [name, 'gpu-buffer'])),
      }),
      intraOpNumThreads: threads,
      externalData: Object.entries(constants).map(([path, { elements }]) => ({
        path,
        data: new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength),
      })),
      executionMode: 'sequential',
      // graphs are already lowered as they should run; optimizing them would change the order of some products
      graphOptimizationLevel: 'disabled',
      // a third less memory for the same speed
      enableMemPattern: false,
      logSeverityLevel: 3,
      // waiting threads sleep: spinning ones take CPU time from other programs
      extra: { session: { intra_op: { allow_spinning: '0' } } },
    }),
};
