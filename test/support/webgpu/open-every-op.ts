/** Opens a session of every op and its derivative on WebGPU alone, and prints the cases that would need the CPU. */
import { InferenceSession } from 'onnxruntime-node';
import { cases, programOf } from '../../model/graph/op-cases.ts';

const refused: string[] = [];
for (const one of Object.values(cases).flat()) {
  try {
    await InferenceSession.create(programOf(one)('webgpu'), {
      executionProviders: ['webgpu'],
      graphOptimizationLevel: 'disabled',
      logSeverityLevel: 4,
      extra: { session: { disable_cpu_ep_fallback: '1' } },
    });
  } catch {
    refused.push(one.title);
  }
}
process.stdout.write(JSON.stringify(refused));
