/** The onnxruntime-web runtime for trainer threads; each thread script passes its own build. */
import type { Env, InferenceSession, Tensor } from 'onnxruntime-common';
import { ConfigError } from '../base/errors.ts';
import type { ThreadRequest, ThreadResponse } from '../trainer/messages.ts';
import type { Runtime } from '../trainer/runtime.ts';
import { serveTrainer } from '../trainer/serve.ts';

export interface WebBuild {
  readonly env: Env;
  readonly Tensor: typeof Tensor;
  readonly InferenceSession: typeof InferenceSession;
}

/** Folder of the WebAssembly files on the server of the page. */
const FILES = new URL('ort/', import.meta.url).href;

function webRuntime({ env, Tensor, InferenceSession }: WebBuild): Runtime {
  env.wasm.wasmPaths = FILES;
  return {
    Tensor,
    // onnxruntime-web does not copy results back into a caller's tensor
    writesInPlace: false,
    createSession: (model, device, threads, resident = []) => {
      // read only once, when the first session is created
      env.wasm.numThreads = crossOriginIsolated ? threads : 1;
      return InferenceSession.create(model, {
        executionProviders: [device === 'webgpu' ? 'webgpu' : 'wasm'],
        ...(resident.length > 0 && {
          preferredOutputLocation: Object.fromEntries(resident.map((name) => [name, 'gpu-buffer'])),
        }),
        executionMode: 'sequential',
        graphOptimizationLevel: 'disabled',
        enableMemPattern: false,
        logSeverityLevel: 3,
      });
    },
  };
}

/** Runs a trainer thread with this build in the current Web Worker. */
export function serveThread(build: WebBuild): void {
  const openStored = () => {
    throw new ConfigError('training/data', 'a page has its text in memory, not in files');
  };
  const post = (answer: ThreadResponse, transfer: ArrayBuffer[]) =>
    self.postMessage(answer, transfer);
  const serve = serveTrainer({ ort: webRuntime(build), openStored }, post);
  self.onmessage = ({ data }: MessageEvent<ThreadRequest>) => serve(data);
}
