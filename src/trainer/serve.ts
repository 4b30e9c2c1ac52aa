/**
 * What a trainer thread does: onnxruntime blocks its thread, so it never runs on the main one. Calls are answered in
 * order.
 */
import type { InferenceSession, Tensor } from 'onnxruntime-common';
import type { OpenStored } from '../model/data/tokens.ts';
import type { DataName, Feed } from '../model/forms/form.ts';
import type {
  Answer,
  AnswerTo,
  Ask,
  AskOf,
  CallName,
  OpenRequest,
  ReadingRequest,
  RowLosses,
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

/** What a thread has of its machine. */
export interface ThreadParts {
  readonly ort: Runtime;
  readonly openStored: OpenStored;
}

interface Opened {
  readonly rows: number;
  readonly data: Readonly<Record<DataName, DataSource>>;
  readonly frozen: Tensors;
  /** Frozen tensors where the device reads them. */
  readonly frozenOnDevice: Tensors;
  readonly memory: GpuMemory | undefined;
  readonly stepper: Stepper;
  readonly threads: number;
  /** Loaded when first needed. */
  readonly session: (name: 'evaluate' | 'forward') => Promise<InferenceSession>;
  held: Tensor;
  /** The same on the GPU, once it was needed there. */
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
    held: vector(ort, new Float32Array(0)),
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

/** The held parameters where the device reads them. */
async function paramsOnDevice(opened: Opened): Promise<Tensor> {
  const { held, memory } = opened;
  if (!memory) return held;
  opened.uploaded ??= await memory.upload(held);
  return opened.uploaded;
}

async function evaluate(
  { Tensor }: Runtime,
  opened: Opened,
  { on, rows }: AskOf<'evaluate'>,
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

/** Views of the held parameters by name, beside the frozen tensors. */
async function openReader(
  ort: Runtime,
  opened: Opened,
  { programs, slots, capacity, ...sizes }: ReadingRequest,
): Promise<void> {
  const { held, frozen, reader, threads } = opened;
  const params = floats(held);
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

async function read({ reader }: Opened, { tokens, begins }: AskOf<'read'>): Promise<Float32Array> {
  if (!reader) throw new TypeError('no reader was opened');
  if (begins) reader.clear();
  return reader.read(tokens);
}

function answersOf(parts: ThreadParts): TrainerCalls {
  const { ort } = parts;
  let opened: Opened | undefined;
  const current = (): Opened => {
    if (!opened) throw new TypeError('the trainer thread was not opened');
    return opened;
  };
  return {
    open: async (request) => {
      opened = await open(parts, request);
    },
    begin: async (vectors) => current().stepper.begin(vectors),
    advance: async (task) => current().stepper.advance(task),
    finish: async () => current().stepper.finish(),
    hold: async (params) => {
      current().held = vector(ort, params);
      current().uploaded?.dispose();
      current().uploaded = undefined;
    },
    evaluate: (ask) => evaluate(ort, current(), ask),
    forward: (inputs) => forward(ort, current(), inputs),
    openReader: (request) => openReader(ort, current(), request),
    read: (ask) => read(current(), ask),
  };
}

/** Whole buffers among the parts of an answer: handed over rather than copied. */
function buffersOf(answer: AnswerTo<CallName>): ArrayBuffer[] {
  const arrays = Array.isArray(answer) ? answer : [];
  return arrays.flatMap((array) =>
    array instanceof Float32Array && array.buffer instanceof ArrayBuffer ? [array.buffer] : [],
  );
}

/** Answers what comes in, one after the other; `post` hands over the buffers that it names. */
export function serveTrainer(
  parts: ThreadParts,
  post: (answer: Answer, handOver: ArrayBuffer[]) => void,
): (ask: Ask) => void {
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
