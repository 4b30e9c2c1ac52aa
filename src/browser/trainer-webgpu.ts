/** Entry point of a trainer thread on WebGPU; bundled as a separate script. */
import { env, InferenceSession, Tensor } from 'onnxruntime-web/webgpu';
import { serveThread } from './runtime.ts';

serveThread({ env, InferenceSession, Tensor });
