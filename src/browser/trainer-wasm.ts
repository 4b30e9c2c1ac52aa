/** Entry point of a trainer thread on WebAssembly; bundled as a separate script. */
import { env, InferenceSession, Tensor } from 'onnxruntime-web/wasm';
import { serveThread } from './runtime.ts';

serveThread({ env, InferenceSession, Tensor });
