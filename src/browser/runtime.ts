/** onnxruntime-web as trainer threads use it; each script brings the build that it needs. */
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

/** Where the server of the page has the WebAssembly files. */
const FILES = new URL('ort/', import.meta.url).href;

function webRuntime({ env, Tensor, InferenceSession }: WebBuild): Runtime {
  env.wasm.wasmPaths = FILES;
  return {
    Tensor,
    // results are made anew: onnxruntime-web keeps what it wrote into a caller's tensor to itself
    writesInPlace: false,
    createSession: (model, device, threads, resident = []) => {
      // looked at once, when the first session is made
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

/** Makes this Web Worker a trainer thread on that build. */
export function serveThread(build: WebBuild): void {
  const openStored = () => {
    throw new ConfigError('training/data', 'a page holds its text in memory, not in files');
  };
  const post = (answer: ThreadResponse, transfer: ArrayBuffer[]) =>
    self.postMessage(answer, transfer);
  const serve = serveTrainer({ ort: webRuntime(build), openStored }, post);
  self.onmessage = ({ data }: MessageEvent<ThreadRequest>) => serve(data);
}
