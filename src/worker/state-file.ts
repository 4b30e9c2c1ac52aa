/** Writes and reads a worker's state as one safetensors file: tensors by name, everything else as validated JSON. */
import { fromBase64, toBase64 } from '../base/bytes.ts';
import { jsonIn } from '../base/canonical-json.ts';
import {
  isCount,
  isNumber,
  isObject,
  isText,
  listOf,
  optional,
  shape,
  type Untyped,
} from '../base/shape.ts';
import { parseEvent, type SignedEvent } from '../network/event.ts';
import { createLayout, type Layout, sameLayout, type Vector } from '../tensor/params.ts';
import { decodeSafetensors, encodeSafetensors, type NamedTensor } from '../tensor/safetensors.ts';
import type { RoundSummary } from './events.ts';
import type { Sent, WorkerState } from './state.ts';

/** Name prefix of tensors that do not belong to the model. */
export const STATE_TENSOR_PREFIX = 'nostrain.';

/** Returns the safetensors file of a worker’s state. */
export function encodeState(
  state: WorkerState,
  added: AddedMembers<object> = noMembers,
): Uint8Array {
  const { params, momentum, moments, residual, unpacked, ...record } = state;
  const namedTensor = (name: string, values: Vector): NamedTensor => ({
    name: STATE_TENSOR_PREFIX + name,
    shape: [values.length],
    values,
  });
  const tensors = params.layout.slots.map(({ name, shape, offset, size }) => ({
    name,
    shape,
    values: params.values.subarray(offset, offset + size),
  }));
  return encodeSafetensors({
    tensors: [
      ...tensors,
      namedTensor('momentum', momentum),
      namedTensor('residual', residual),
      ...(unpacked ? [namedTensor('unpacked', unpacked)] : []),
      ...moments.map((values, i) => namedTensor(`moment.${i}`, values)),
    ],
    metadata: { format: 'nostrain-run', version: '1', worker: formatRecord(record, added) },
  });
}

/** Returns the state, or why the bytes are not one. */
export function decodeState<M extends object>(
  bytes: Uint8Array,
  layout: Layout,
  added: AddedMembers<M>,
): (WorkerState & M) | string {
  const decoded = decodeSafetensors(bytes);
  if (!decoded.ok) return decoded.issue.message;
  const { tensors, metadata } = decoded.value;
  if (metadata.format !== 'nostrain-run') return 'it is not a saved run';
  if (metadata.version !== '1') return `it is of version ${metadata.version}, this reads 1`;
  const model = tensors.filter(({ name }) => !name.startsWith(STATE_TENSOR_PREFIX));
  const named = model.length > 0 && model.every(({ name }) => name !== '');
  if (!named || !sameLayout(createLayout(model), layout)) return 'it holds another model';
  const valuesOf = (name: string) =>
    tensors.find((tensor) => tensor.name === STATE_TENSOR_PREFIX + name)?.values;
  const momentum = valuesOf('momentum');
  const residual = valuesOf('residual');
  if (momentum?.length !== layout.size || residual?.length !== layout.size) {
    return 'momentum or residual are missing';
  }
  const unpacked = valuesOf('unpacked');
  if (unpacked && unpacked.length !== layout.size) return 'what it learned last is not whole';
  const moments: Float32Array[] = [];
  for (let moment = valuesOf('moment.0'); moment; moment = valuesOf(`moment.${moments.length}`)) {
    moments.push(Float32Array.from(moment));
  }
  const record = parseRecord(metadata.worker ?? '', added);
  if (!record) return 'its history is not whole';
  return {
    ...record,
    params: { layout, values: joinTensors(model, layout) },
    momentum,
    residual: Float64Array.from(residual),
    ...(unpacked && { unpacked: Float64Array.from(unpacked) }),
    moments,
  };
}

/** Joins tensors end to end; the result is f32 if all of them are. */
function joinTensors(tensors: readonly NamedTensor[], layout: Layout): Vector {
  const values = tensors.every((tensor) => tensor.values instanceof Float32Array)
    ? new Float32Array(layout.size)
    : new Float64Array(layout.size);
  let offset = 0;
  for (const tensor of tensors) {
    values.set(tensor.values, offset);
    offset += tensor.values.length;
  }
  return values;
}

export type WorkerRecord = Omit<
  WorkerState,
  'params' | 'momentum' | 'moments' | 'residual' | 'unpacked'
>;

/** Formats and parses the members that a strategy adds to the state. */
export interface AddedMembers<M extends object> {
  format(record: WorkerRecord): Untyped;
  /** Returns the added members of a saved record; undefined if they are incomplete. */
  parse(saved: Untyped): M | undefined;
}

/** For a strategy that adds no members, or only plain JSON. */
export const noMembers: AddedMembers<object> = { format: () => ({}), parse: () => ({}) };

/** Formats a record as JSON; payload bytes become base64. */
const formatRecord = (record: WorkerRecord, added: AddedMembers<object>): string =>
  JSON.stringify({
    ...record,
    ...added.format(record),
    sent: record.sent && formatSent(record.sent),
  });

export const formatSent = (sent: Sent): Untyped => ({
  ...sent,
  event: JSON.stringify(sent.event),
  payload: sent.payload && toBase64(sent.payload),
});

export function parseSent(json: unknown): Sent | undefined {
  if (!isObject(json)) return undefined;
  const sent = { ...withNumbers(json, SENT), event: eventOf(json), payload: payloadOf(json) };
  return isSent(sent) ? sent : undefined;
}

/** Parses a record; undefined if it is incomplete. Losses that were not finite become NaN. */
export function parseRecord<M extends object>(
  text: string,
  added: AddedMembers<M>,
): (WorkerRecord & M) | undefined {
  const json = jsonIn(text);
  if (!isObject(json)) return undefined;
  const members = added.parse(json);
  const sent = json.sent === undefined ? undefined : parseSent(json.sent);
  if (members === undefined || (json.sent !== undefined && sent === undefined)) return undefined;
  const rounds = Array.isArray(json.rounds) ? json.rounds.map(numbered) : [];
  const restored = {
    ...json,
    ...members,
    cohort: json.cohort,
    norms: json.norms ?? [],
    sent,
    rounds,
    seconds: json.seconds ?? secondsOf(rounds.filter(isRound)),
    lossBefore: json.lossBefore ?? Number.NaN,
  };
  return isRecord(restored) ? restored : undefined;
}

const SENT = ['trainingLoss', 'payloadBytes', 'eventBytes', 'secondsTraining', 'residualShare'];
const EVALUATED = ['validationLoss', 'bitsPerByte', 'accuracy'];
const ROUND = [...SENT, 'secondsWaiting', 'seconds'];

/** Restores NaN, which JSON writes as null. */
function withNumbers(value: Untyped, names: readonly string[]): Untyped {
  const nulls = names.filter((name) => value[name] === null);
  return { ...value, ...Object.fromEntries(nulls.map((name) => [name, Number.NaN])) };
}

const numbered = (round: unknown): unknown =>
  isObject(round) ? withNumbers(round, [...ROUND, ...EVALUATED]) : round;

export function parseRound(json: unknown): RoundSummary | undefined {
  const round = numbered(json);
  return isRound(round) ? round : undefined;
}

/** Computes the totals for states saved before they were stored. */
const secondsOf = (rounds: readonly RoundSummary[]): WorkerState['seconds'] => ({
  training: rounds.reduce((sum, { secondsTraining }) => sum + secondsTraining, 0),
  waiting: rounds.reduce((sum, { secondsWaiting }) => sum + secondsWaiting, 0),
});

const isRound = (value: unknown): value is RoundSummary => isRoundShape(value);

const isRoundShape = shape({
  index: isCount,
  base: isText,
  digest: isText,
  accepted: listOf(isText),
  refused: listOf(shape({ reason: isText })),
  completionReason: isText,
  ...Object.fromEntries(ROUND.map((name) => [name, isNumber])),
  ...Object.fromEntries(EVALUATED.map((name) => [name, optional(isNumber)])),
  sample: optional(isText),
});

const isRecordShape = shape({
  round: isCount,
  cohort: optional(listOf(isText)),
  norms: listOf(isNumber),
  outerNorms: optional(listOf(listOf(isNumber))),
  folded: (value): value is Untyped => isObject(value) && Object.values(value).every(isCount),
  rounds: listOf(isRoundShape),
  seconds: shape({ training: isNumber, waiting: isNumber }),
  lossBefore: isNumber,
  tokens: isNumber,
  lastSent: optional(isText),
});

const isRecord = <T extends Untyped>(value: T): value is T & WorkerRecord => isRecordShape(value);

/** Decodes a payload. Invalid base64 stays text, which later checks refuse. */
const payloadOf = ({ payload }: Untyped): unknown =>
  isText(payload) ? (fromBase64(payload) ?? payload) : payload;

/** Returns the signed event, with its original bytes; undefined if the text is not an event. */
function eventOf({ event }: Untyped): SignedEvent | undefined {
  const read = isText(event) ? parseEvent(jsonIn(event)) : undefined;
  return read?.ok ? read.value : undefined;
}

const isSent = (value: Untyped): value is Untyped & Sent =>
  value.event !== undefined &&
  listOf(isText)(value.roster) &&
  (value.payload === undefined || value.payload instanceof Uint8Array) &&
  SENT.every((name) => isNumber(value[name]));
