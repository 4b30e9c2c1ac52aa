/** The part of a worker's state that is no tensor, as JSON in its file: written, and checked when read back. */
import { fromBase64, toBase64 } from '../base/bytes.ts';
import { parseEvent, type SignedEvent } from '../network/event.ts';
import type { Sent, WorkerState } from '../worker/state.ts';
import { formatPast, formatStanding, parsePast, parseStanding } from './standing-record.ts';

export type WorkerRecord = Omit<
  WorkerState,
  'params' | 'momentum' | 'moments' | 'residual' | 'learned'
>;

/** Payloads are bytes: base64 in the text. */
export const formatRecord = ({
  sent,
  pending,
  standing,
  contributed,
  ...record
}: WorkerRecord): string =>
  JSON.stringify({
    ...record,
    standing: standing && formatStanding(standing),
    sent: sent && formatSent(sent),
    pending: pending && formatSent(pending),
    contributed: contributed?.map((each) => ({
      ...each,
      sent: formatSent(each.sent),
      past: formatPast(each.past),
    })),
  });

const formatSent = (sent: Sent): Fields => ({
  ...sent,
  event: JSON.stringify(sent.event),
  payload: sent.payload && toBase64(sent.payload),
});

const parseSent = (sent: unknown): unknown =>
  isObject(sent)
    ? { ...withNumbers(sent, SENT), event: eventOf(sent), payload: payloadOf(sent) }
    : sent;

const parseContributed = (each: unknown): unknown =>
  isObject(each) ? { ...each, sent: parseSent(each.sent), past: parsePast(each.past) } : each;

/** The record in the text; undefined when it is not whole. Losses that were not finite come back as NaN. */
export function parseRecord(text: string): WorkerRecord | undefined {
  const json = jsonOf(text);
  if (!isObject(json)) return undefined;
  const { cohort, sent, pending, contributed } = json;
  const standing = json.standing === undefined ? undefined : parseStanding(json.standing);
  if (json.standing !== undefined && standing === undefined) return undefined;
  const restored = {
    ...json,
    ...(standing && { standing }),
    cohort,
    sent: parseSent(sent),
    pending: parseSent(pending),
    contributed: Array.isArray(contributed) ? contributed.map(parseContributed) : contributed,
    rounds: Array.isArray(json.rounds)
      ? json.rounds.map((one) => (isObject(one) ? withNumbers(one, ROUND) : one))
      : [],
    lossBefore: json.lossBefore ?? Number.NaN,
  };
  return isRecord(restored) ? restored : undefined;
}

type Fields = Readonly<Record<string, unknown>>;

const SENT = ['trainingLoss', 'payloadBytes', 'eventBytes', 'secondsTraining', 'residualShare'];
const ROUND = [...SENT, 'secondsWaiting', 'seconds'];

const isObject = (value: unknown): value is Fields =>
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

function isRecord(value: Fields): value is Fields & WorkerRecord {
  const {
    round,
    cohort,
    folded,
    rounds,
    lossBefore,
    tokens,
    lastSent,
    sent,
    pending,
    contributed,
  } = value;
  return (
    isCount(round) &&
    (cohort === undefined || isTexts(cohort)) &&
    isObject(folded) &&
    Object.values(folded).every(isCount) &&
    Array.isArray(rounds) &&
    rounds.every(isRound) &&
    isNumber(lossBefore) &&
    isNumber(tokens) &&
    (lastSent === undefined || isText(lastSent)) &&
    (sent === undefined || isSent(sent)) &&
    (pending === undefined || isSent(pending)) &&
    (contributed === undefined || (Array.isArray(contributed) && contributed.every(isContributed)))
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

const isSent = (value: unknown): boolean =>
  isObject(value) &&
  value.event !== undefined &&
  isTexts(value.roster) &&
  (value.payload === undefined || value.payload instanceof Uint8Array) &&
  SENT.every((name) => isNumber(value[name]));

const isContributed = (value: unknown): boolean =>
  isObject(value) &&
  isSent(value.sent) &&
  value.past !== undefined &&
  typeof value.isOut === 'boolean';

const isRound = (value: unknown): boolean =>
  isObject(value) &&
  isCount(value.index) &&
  isText(value.base) &&
  isText(value.digest) &&
  isTexts(value.accepted) &&
  Array.isArray(value.refused) &&
  value.refused.every((refused) => isObject(refused) && isText(refused.reason)) &&
  isText(value.completionReason) &&
  ROUND.every((name) => isNumber(value[name])) &&
  (value.validationLoss === undefined || isNumber(value.validationLoss)) &&
  (value.sample === undefined || isText(value.sample));
