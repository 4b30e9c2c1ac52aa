/** The trainer thread of a tab on WebGPU; bundled as a script of its own. */
import { env, InferenceSession, Tensor } from 'onnxruntime-web/webgpu';
import { serveThread } from './runtime.ts';

serveThread({ env, InferenceSession, Tensor });
