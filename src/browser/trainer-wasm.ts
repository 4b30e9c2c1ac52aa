/** The trainer thread of a tab on WebAssembly; bundled as a script of its own. */
import { env, InferenceSession, Tensor } from 'onnxruntime-web/wasm';
import { serveThread } from './runtime.ts';

serveThread({ env, InferenceSession, Tensor });
