/**
 * Commands of the Python reference for model states and payloads: create, hash, convert and train a state, take the
 * outer step of a round; encode the difference of two states, decode, apply and average payloads.
 */
import { ConfigError } from '../../base/errors.ts';
import { difference, moved } from '../../formats/arithmetic.ts';
import { indentedJson } from '../../formats/python-json.ts';
import { formatStateJson } from '../../formats/state-json.ts';
import { readDataset } from '../../node/data/sources.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { createNativeSha256 } from '../../node/native/sha256.ts';
import { stateDigest } from '../../tensor/params.ts';
import {
  choice,
  type Flag,
  required,
  text,
  toggle,
  withDefault,
} from '../../terminal/flag-table.ts';
import { writeResult } from '../../terminal/output.ts';
import {
  assertWritable,
  outputFlag,
  stateFormatFlag,
  stateOutputFlags,
  writeState,
} from '../../terminal/state-flags.ts';
import { encodeNstr } from '../codec/nstr.ts';
import { trainOnBackend } from '../node/train-on-backend.ts';
import { openZstd } from '../node/zstd.ts';
import { aggregateWeightedDeltas, nesterovOuterStep, type WeightedDelta } from '../outer-step.ts';
import { initialState } from '../regression/initial-state.ts';
import { PAYLOAD_WORDS, payloadJson, readDelta, readPayload } from './files.ts';
import {
  above0,
  backendFlag,
  below1,
  decimal,
  integer,
  pythonCommand,
  runtimeFlag,
  share,
} from './flags.ts';

/** The seed flag: any integer, as in Python's generator. */
const seedFlag: Flag<bigint | undefined> = {
  value: '<n>',
  help: 'random seed of the weights',
  read(typed) {
    if (/^\s*[+-]?[0-9]{1,1000}\s*$/.test(typed)) return BigInt(typed.trim().replace('+', ''));
    const message = `--seed is ${JSON.stringify(typed)}; it must be a whole number`;
    throw new ConfigError('flag/value', message);
  },
};

export const initState = pythonCommand({
  name: 'init-state',
  description: 'write the initial state of a regression model',
  flags: {
    runtime: withDefault(
      choice('<name>', 'which model', ['linear-regression', 'mlp-regression']),
      'linear-regression',
    ),
    features: required(integer('<n>', 'inputs of an example', 1)),
    hiddenSize: integer('<n>', 'mlp-regression: width of the hidden layer', 1),
    seed: withDefault(seedFlag, 0n, '0'),
    weightScale: withDefault(
      decimal('<x>', 'largest random weight, before scaling by width', above0),
      0.1,
    ),
    ...stateOutputFlags,
  },
  async run(flags) {
    const { runtime, hiddenSize } = flags;
    if (runtime === 'mlp-regression' && hiddenSize === undefined) {
      throw new ConfigError('state/hidden-size', 'mlp-regression needs --hidden-size', {
        hint: 'for example --hidden-size 8',
      });
    }
    await writeState({ ...initialState(runtime, flags), runtime }, flags);
  },
});

export const hashState = pythonCommand({
  name: 'hash-state',
  description: 'print the digest of a model state',
  words: { state: 'state file, or the folder of a run' },
  flags: { output: outputFlag, stateFormat: stateFormatFlag },
  async run({ stateFormat, output }, { state }) {
    const params = await readStateFile(state, stateFormat);
    await writeResult(`${stateDigest(params, createNativeSha256)}\n`, output);
  },
});

export const convertState = pythonCommand({
  name: 'convert-state',
  description: 'convert a model state to another format',
  words: { state: 'state file, or the folder of a run' },
  flags: { inputFormat: stateFormatFlag, ...stateOutputFlags },
  async run(flags, { state }) {
    await writeState(await readStateFile(state, flags.inputFormat), flags);
  },
});

export const trainLocal = pythonCommand({
  name: 'train-local',
  description: 'train a regression model locally, like the Python reference',
  words: { state: 'state to start from', dataset: 'JSON dataset to train on' },
  flags: {
    runtime: runtimeFlag,
    backend: backendFlag,
    steps: withDefault(integer('<n>', 'number of gradient descent steps', 1), 500),
    learningRate: withDefault(decimal('<x>', 'learning rate', above0), 0.01),
    batchSize: withDefault(integer('<n>', 'examples per step', 1), 1),
    metricsOut: text('<file>', 'write settings and losses as JSON to this file'),
    stateFormat: stateFormatFlag,
    ...stateOutputFlags,
  },
  async run(flags, { state, dataset }) {
    assertWritable(flags);
    const { backend, metricsOut, steps, learningRate, batchSize } = flags;
    const params = await readStateFile(state, flags.stateFormat);
    const examples = await readDataset(dataset);
    const training = await trainOnBackend(backend, params, examples, flags);
    const { runtime } = training;
    const metrics = {
      task: runtime,
      runtime,
      backend,
      steps: BigInt(steps),
      learning_rate: learningRate,
      batch_size: BigInt(batchSize),
      example_count: BigInt(examples.size),
      feature_count: BigInt(examples.features),
      loss_before: training.lossBefore,
      loss_after: training.lossAfter,
    };
    if (metricsOut !== undefined) await writeResult(`${indentedJson(metrics)}\n`, metricsOut);
    await writeState({ ...training.params, runtime }, flags);
  },
});

export const outerStep = pythonCommand({
  name: 'outer-step',
  description: 'take the outer step of a round: Nesterov momentum over a mean delta',
  words: {
    base: 'state from which all workers started the round',
    delta: 'mean delta: a JSON state, a payload or a gradient event',
  },
  flags: {
    learningRate: withDefault(decimal('<x>', 'learning rate of the outer step', above0), 0.7),
    momentum: withDefault(decimal('<x>', 'momentum coefficient', below1), 0.9),
    momentumState: text('<file>', 'momentum after the previous step (default: zeros)'),
    momentumOut: text('<file>', 'write the momentum after this step to this file'),
    summaryOut: text('<file>', 'write settings and sizes as JSON to this file'),
    stateFormat: stateFormatFlag,
    ...stateOutputFlags,
  },
  async run(flags, words) {
    const { learningRate, momentum, momentumState, momentumOut, summaryOut, stateFormat } = flags;
    const momentumFlags = momentumOut === undefined ? undefined : { ...flags, output: momentumOut };
    assertWritable(flags);
    if (momentumFlags) assertWritable(momentumFlags);
    const base = await readStateFile(words.base, stateFormat);
    const { delta } = await readDelta(words.delta);
    const previousMomentum =
      momentumState === undefined ? undefined : await readStateFile(momentumState, stateFormat);
    const step = nesterovOuterStep(base, delta, { learningRate, momentum, previousMomentum });
    if (momentumFlags) await writeState(step.momentumState, momentumFlags);
    const summary = {
      learning_rate: learningRate,
      momentum,
      parameter_count: BigInt(base.layout.slots.length),
      aggregated_values: BigInt(delta.layout.size),
    };
    if (summaryOut !== undefined) await writeResult(`${indentedJson(summary)}\n`, summaryOut);
    await writeState(step.nextState, flags);
  },
});

export const encodeDelta = pythonCommand({
  name: 'encode-delta',
  description: 'encode the largest values of the difference of two states as int8',
  words: { initial: 'state before training', current: 'state after training' },
  flags: {
    topk: withDefault(decimal('<share>', 'share of the values to send', share), 0.01),
    codec: withDefault(
      choice('<name>', 'compression; use zstd only if every worker supports it', ['zlib', 'zstd']),
      'zlib',
    ),
    raw: toggle('print only the base64 text'),
    stateFormat: stateFormatFlag,
    output: outputFlag,
  },
  async run({ topk: ratio, codec, raw, stateFormat, output }, { initial, current }) {
    const before = await readStateFile(initial, stateFormat);
    const after = await readStateFile(current, stateFormat);
    const zstd = codec === 'zstd' ? await openZstd() : undefined;
    const encoded = encodeNstr(difference(before, after, current), { ratio, zstd });
    const written = raw ? encoded.payload : indentedJson(payloadJson(encoded));
    await writeResult(`${written}\n`, output);
  },
});

export const decodePayload = pythonCommand({
  name: 'decode-payload',
  description: 'print the delta (after - before) in a payload',
  words: { payload: PAYLOAD_WORDS },
  flags: { output: outputFlag },
  async run({ output }, { payload }) {
    await writeResult(formatStateJson(await readPayload(payload)), output);
  },
});

export const applyPayload = pythonCommand({
  name: 'apply-payload',
  description: 'add the delta in a payload to a state',
  words: { base: 'state to add to', payload: PAYLOAD_WORDS },
  flags: { stateFormat: stateFormatFlag, ...stateOutputFlags },
  async run(flags, { base, payload }) {
    assertWritable(flags);
    const state = await readStateFile(base, flags.stateFormat);
    await writeState(moved(state, await readPayload(payload), payload), flags);
  },
});

export const aggregatePayloads = pythonCommand({
  name: 'aggregate-payloads',
  description: 'print the mean of deltas; events are weighted by their examples, all else by 1',
  words: { 'inputs...': 'deltas (JSON states), payloads or gradient events' },
  flags: { output: outputFlag },
  async run({ output }, { 'inputs...': inputs }) {
    const deltas: WeightedDelta[] = [];
    for (const input of inputs) deltas.push(await readDelta(input));
    await writeResult(formatStateJson(aggregateWeightedDeltas(deltas)), output);
  },
});
