/**
 * Serves the calls of a trainer thread, in order. onnxruntime blocks the thread it runs on, so it never runs on the
 * main thread.
 */
import type { InferenceSession, Tensor } from 'onnxruntime-common';
import type { OpenStored } from '../model/data/tokens.ts';
import type { Feed } from '../model/feeds.ts';
import type { DataName } from '../model/forms/form.ts';
import type {
  ArgumentOf,
  CallName,
  OpenRequest,
  ReadingRequest,
  ResultOf,
  RowLosses,
  ThreadRequest,
  ThreadResponse,
  TrainerCalls,
} from './messages.ts';
import { createReplicaStepper } from './replica.ts';
import {
  type DataSource,
  floats,
  openSource,
  type Runtime,
  requireHalf,
  type Tensors,
  tensorOf,
  tensorsOf,
  vector,
} from './runtime.ts';
import {
  createResidentStepper,
  createSingleStepper,
  type GpuMemory,
  openGpuMemory,
  type ShardFeeds,
  type Stepper,
  uploadFrozen,
} from './stepper.ts';
import { createTextReader } from './text-reader.ts';

/** The platform's onnxruntime and token files, for use in a thread. */
export interface ThreadParts {
  readonly ort: Runtime;
  readonly openStored: OpenStored;
}

interface Opened {
  readonly rows: number;
  readonly data: Readonly<Record<DataName, DataSource>>;
  readonly frozen: Tensors;
  /** Frozen tensors in the memory of the device. */
  readonly frozenOnDevice: Tensors;
  readonly memory: GpuMemory | undefined;
  readonly stepper: Stepper;
  readonly threads: number;
  /** Returns the session of a program; loads it when first needed. */
  readonly session: (name: 'evaluate' | 'forward') => Promise<InferenceSession>;
  paramsTensor: Tensor;
  /** The parameters in GPU memory, uploaded when first needed. */
  uploaded?: Tensor | undefined;
  reader?: ReturnType<typeof createTextReader>;
}

async function open(parts: ThreadParts, request: OpenRequest): Promise<Opened> {
  const { ort } = parts;
  const { device, threads, half } = request;
  if (half) await requireHalf(ort, device, half);
  const frozen = tensorsOf(ort, request.frozen);
  const memory = device === 'webgpu' ? openGpuMemory(ort) : undefined;
  const frozenOnDevice = memory ? await uploadFrozen(ort, request.frozen, memory) : frozen;
  const data = {
    shard: openSource(request.data.shard, device, parts),
    validation: openSource(request.data.validation, device, parts),
  };
  const shard = { source: data.shard, frozen: frozenOnDevice };
  const sessions = new Map<string, Promise<InferenceSession>>();
  return {
    rows: request.rows,
    data,
    frozen,
    frozenOnDevice,
    memory,
    threads,
    stepper: await createStepper(ort, request, shard, memory),
    session: (name) => {
      const session = sessions.get(name) ?? ort.createSession(request[name], device, threads);
      sessions.set(name, session);
      return session;
    },
    paramsTensor: vector(ort, new Float32Array(0)),
  };
}

function createStepper(
  ort: Runtime,
  { device, threads, training }: OpenRequest,
  shard: ShardFeeds,
  memory: GpuMemory | undefined,
): Promise<Stepper> {
  if (training.kind === 'replica') {
    return createReplicaStepper(training, device, threads, shard, ort);
  }
  return memory
    ? createResidentStepper(training, shard, memory, ort)
    : createSingleStepper(training, device, threads, shard, ort);
}

/** Returns the parameters in the memory of the device. */
async function paramsOnDevice(opened: Opened): Promise<Tensor> {
  const { paramsTensor, memory } = opened;
  if (!memory) return paramsTensor;
  opened.uploaded ??= await memory.upload(paramsTensor);
  return opened.uploaded;
}

async function evaluate(
  { Tensor }: Runtime,
  opened: Opened,
  { on, rows }: ArgumentOf<'evaluate'>,
): Promise<RowLosses> {
  const { session, data, frozenOnDevice, rows: count } = opened;
  const model = await session('evaluate');
  const params = await paramsOnDevice(opened);
  const losses = new Float32Array(rows.length);
  const counts = new Float32Array(rows.length).fill(1);
  let hits: Float32Array | undefined;
  for (let at = 0; at < rows.length; at += count) {
    const own = data[on].at(rows.slice(at, at + count));
    const feeds = { ...frozenOnDevice, ...own.tensors, rows: new Tensor('int32', own.rows) };
    const results = await model.run({ ...feeds, params });
    losses.set(floats(results.losses), at);
    if (results.counts) counts.set(floats(results.counts), at);
    if (!results.hits) continue;
    hits ??= new Float32Array(rows.length);
    hits.set(floats(results.hits), at);
  }
  return { losses, counts, ...(hits && { hits }) };
}

async function forward(ort: Runtime, opened: Opened, inputs: Feed): Promise<Float32Array> {
  const { session, frozenOnDevice } = opened;
  const model = await session('forward');
  const params = await paramsOnDevice(opened);
  const results = await model.run({ ...frozenOnDevice, params, inputs: tensorOf(ort, inputs) });
  return floats(results.predictions);
}

/** Opens a reader with views of the current parameters, by name, and the frozen tensors. */
async function openReader(
  ort: Runtime,
  opened: Opened,
  { programs, slots, capacity, ...sizes }: ReadingRequest,
): Promise<void> {
  const { paramsTensor, frozen, reader, threads } = opened;
  const params = floats(paramsTensor);
  const own = slots.map(({ name, shape, offset, size }) => {
    const view = params.subarray(offset, offset + size);
    return [name, new ort.Tensor('float32', view, shape)] as const;
  });
  await reader?.close();
  const compile = ({ tokens }: { readonly tokens: number }) => programs.get(tokens)!;
  opened.reader = createTextReader({
    ort,
    decoding: { ...sizes, compile },
    tensors: { ...frozen, ...Object.fromEntries(own) },
    capacity,
    threads,
  });
}

async function read(
  { reader }: Opened,
  { tokens, begins }: ArgumentOf<'read'>,
): Promise<Float32Array> {
  if (!reader) throw new TypeError('no reader is open');
  if (begins) reader.clear();
  return reader.read(tokens);
}

function answersOf(parts: ThreadParts): TrainerCalls {
  const { ort } = parts;
  let opened: Opened | undefined;
  const current = (): Opened => {
    if (!opened) throw new TypeError('the trainer thread is not open');
    return opened;
  };
  return {
    open: async (request) => {
      opened = await open(parts, request);
    },
    begin: async (vectors) => current().stepper.begin(vectors),
    advance: async (task) => current().stepper.advance(task),
    finish: async () => current().stepper.finish(),
    setParams: async (params) => {
      current().paramsTensor = vector(ort, params);
      current().uploaded?.dispose();
      current().uploaded = undefined;
    },
    evaluate: (ask) => evaluate(ort, current(), ask),
    forward: (inputs) => forward(ort, current(), inputs),
    openReader: (request) => openReader(ort, current(), request),
    read: (ask) => read(current(), ask),
  };
}

/** Returns the buffers in a result that can be transferred instead of copied. */
function buffersOf(answer: ResultOf<CallName>): ArrayBuffer[] {
  const arrays = Array.isArray(answer) ? answer : [];
  return arrays.flatMap((array) =>
    array instanceof Float32Array && array.buffer instanceof ArrayBuffer ? [array.buffer] : [],
  );
}

/** Returns a handler that serves requests one at a time; `post` transfers the given buffers. */
export function serveTrainer(
  parts: ThreadParts,
  post: (answer: ThreadResponse, transfer: ArrayBuffer[]) => void,
): (ask: ThreadRequest) => void {
  const answers = answersOf(parts);
  const answerTo = (call: CallName, ask: unknown) => answers[call](ask as never);
  let last: Promise<void> = Promise.resolve();
  return ({ id, call, ask }) => {
    last = last.then(async () => {
      try {
        const answer = await answerTo(call, ask);
        post({ id, ok: true, answer }, buffersOf(answer));
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        post({ id, ok: false, message }, []);
      }
    });
  };
}
