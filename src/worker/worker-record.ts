/** The part of a worker's state that is no tensor, as JSON in its file: written, and checked when read back. */
import { fromBase64, toBase64 } from '../base/bytes.ts';
import { parseEvent, type SignedEvent } from '../network/event.ts';
import type { RoundSummary } from './events.ts';
import type { Sent, WorkerState } from './state.ts';

export type WorkerRecord = Omit<
  WorkerState,
  'params' | 'momentum' | 'moments' | 'residual' | 'unpacked'
>;

/** How the members that a strategy adds to the state are written, where JSON cannot hold them as they are. */
export interface AddedMembers<M extends object> {
  format(record: WorkerRecord): Fields;
  /** The added members of a saved record; undefined when they are not whole. */
  parse(saved: Fields): M | undefined;
}

/** Of a strategy that adds none, or only such as JSON holds as they are. */
export const noMembers: AddedMembers<object> = { format: () => ({}), parse: () => ({}) };

/** Payloads are bytes: base64 in the text. */
export const formatRecord = (record: WorkerRecord, added: AddedMembers<object>): string =>
  JSON.stringify({
    ...record,
    ...added.format(record),
    sent: record.sent && formatSent(record.sent),
  });

export const formatSent = (sent: Sent): Fields => ({
  ...sent,
  event: JSON.stringify(sent.event),
  payload: sent.payload && toBase64(sent.payload),
});

/** A gradient of the JSON; undefined when it is not whole. */
export function parseSent(json: unknown): Sent | undefined {
  if (!isObject(json)) return undefined;
  const sent = { ...withNumbers(json, SENT), event: eventOf(json), payload: payloadOf(json) };
  return isSent(sent) ? sent : undefined;
}

/** The record in the text; undefined when it is not whole. Losses that were not finite come back as NaN. */
export function parseRecord<M extends object>(
  text: string,
  added: AddedMembers<M>,
): (WorkerRecord & M) | undefined {
  const json = jsonOf(text);
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

export type Fields = Readonly<Record<string, unknown>>;

const SENT = ['trainingLoss', 'payloadBytes', 'eventBytes', 'secondsTraining', 'residualShare'];
const EVALUATED = ['validationLoss', 'bitsPerByte', 'accuracy'];
const ROUND = [...SENT, 'secondsWaiting', 'seconds'];

export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isNumber = (value: unknown): value is number => typeof value === 'number';
const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** JSON has no NaN: it was written as null. */
function withNumbers(value: Fields, names: readonly string[]): Fields {
  const nulls = names.filter((name) => value[name] === null);
  return { ...value, ...Object.fromEntries(nulls.map((name) => [name, Number.NaN])) };
}

const numbered = (round: unknown): unknown =>
  isObject(round) ? withNumbers(round, [...ROUND, ...EVALUATED]) : round;

/** A round of the JSON; undefined when it is not whole. */
export function parseRound(json: unknown): RoundSummary | undefined {
  const round = numbered(json);
  return isRound(round) ? round : undefined;
}

/** Of a state from before they were written. */
const secondsOf = (rounds: readonly RoundSummary[]): WorkerState['seconds'] => ({
  training: rounds.reduce((sum, { secondsTraining }) => sum + secondsTraining, 0),
  waiting: rounds.reduce((sum, { secondsWaiting }) => sum + secondsWaiting, 0),
});

function isRecord<T extends Fields>(value: T): value is T & WorkerRecord {
  const {
    round,
    cohort,
    norms,
    outerNorms = [],
    folded,
    rounds,
    seconds,
    lossBefore,
    tokens,
    lastSent,
  } = value;
  return (
    isCount(round) &&
    (cohort === undefined || isTexts(cohort)) &&
    Array.isArray(norms) &&
    norms.every(isNumber) &&
    Array.isArray(outerNorms) &&
    outerNorms.every((sizes) => Array.isArray(sizes) && sizes.every(isNumber)) &&
    isObject(folded) &&
    Object.values(folded).every(isCount) &&
    Array.isArray(rounds) &&
    rounds.every(isRound) &&
    isObject(seconds) &&
    isNumber(seconds.training) &&
    isNumber(seconds.waiting) &&
    isNumber(lossBefore) &&
    isNumber(tokens) &&
    (lastSent === undefined || isText(lastSent))
  );
}

/** Undefined where there is none; text that is not base64 stays text, and is refused as such. */
const payloadOf = ({ payload }: Fields): unknown =>
  isText(payload) ? (fromBase64(payload) ?? payload) : payload;

/** The signed event in the text, with the same bytes as when it was written; undefined where it is none. */
function eventOf({ event }: Fields): SignedEvent | undefined {
  const read = isText(event) ? parseEvent(jsonOf(event)) : undefined;
  return read?.ok ? read.value : undefined;
}

const isSent = (value: Fields): value is Fields & Sent =>
  value.event !== undefined &&
  isTexts(value.roster) &&
  (value.payload === undefined || value.payload instanceof Uint8Array) &&
  SENT.every((name) => isNumber(value[name]));

const isRound = (value: unknown): value is RoundSummary =>
  isObject(value) &&
  isCount(value.index) &&
  isText(value.base) &&
  isText(value.digest) &&
  isTexts(value.accepted) &&
  Array.isArray(value.refused) &&
  value.refused.every((refused) => isObject(refused) && isText(refused.reason)) &&
  isText(value.completionReason) &&
  ROUND.every((name) => isNumber(value[name])) &&
  EVALUATED.every((name) => value[name] === undefined || isNumber(value[name])) &&
  (value.sample === undefined || isText(value.sample));
