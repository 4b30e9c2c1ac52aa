/**
 * Reads files named on the command line: payloads, events, and deltas in any format (JSON state, payload, gradient
 * event, base64).
 */
import { readFile } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import { isJsonObject, type PythonObject, parseJson } from '../../formats/python-json.ts';
import { parseStateJson } from '../../formats/state-json.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import type { Params } from '../../tensor/params.ts';
import type { EncodedNstr } from '../codec/nstr.ts';
import {
  defaultPayloadLimits,
  type ForeignNstr,
  type ForeignNstrLimits,
  readNstr,
  wholeDelta,
} from '../codec/payload.ts';
import { openZstd } from '../node/zstd.ts';
import type { WeightedDelta } from '../outer-step.ts';
import { type ReferenceEvent, readReferenceEvent } from '../wire/reference-event.ts';

/** Returns the trimmed text of a file. Throws a ConfigError if it cannot be read or is empty. */
export async function readTextFile(path: string, what: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('input/file', `cannot read ${what} ${path}`, {
      hint: 'name a file that exists and that you may read',
      cause,
    });
  });
  if (text.trim() !== '') return text.trim();
  throw new ConfigError('input/empty', `${path} is empty; it must be ${what}`);
}

/** Parses the JSON object in the text of a file; keeps integers and floats apart. */
export function readJsonText(text: string, path: string, what: string): PythonObject {
  const json = parseJson(text);
  if (json.ok && isJsonObject(json.value)) return json.value;
  const why = json.ok ? 'not a JSON object' : json.issue.message;
  throw new ConfigError('input/json', `${path} is not ${what}: ${why}`);
}

const DELTA = 'a delta, a payload or a gradient event';

/** Help of an argument that is a payload. */
export const PAYLOAD_WORDS = 'file with base64 text, or JSON with a "payload" member';

/** Reads the improvement (after - before) from a file; an event has its examples as weight, all else weighs 1. */
export async function readDelta(path: string): Promise<WeightedDelta> {
  const text = await readTextFile(path, DELTA);
  if (!text.startsWith('{')) {
    return whole(path, wholeDelta(await openPayload(text.replace(/\s+/g, ''), path)));
  }
  const json = readJsonText(text, path, DELTA);
  if (json.parameters !== undefined) return whole(path, parseStateJson(text));
  if (json.kind !== undefined && json.content !== undefined) {
    const read = await openEvent(text, path);
    if (read.type === 'gradient') {
      return { delta: wholeDelta(read.payload), weight: read.tags.examples ?? 1, name: path };
    }
    throw new ConfigError('delta/kind', `${path} is a ${read.type} event and has no delta`, {
      hint: 'use gradient events (kind 33333)',
    });
  }
  if (typeof json.payload === 'string') {
    return whole(path, wholeDelta(await openPayload(json.payload, path)));
  }
  throw new ConfigError('delta/unknown', `${path} is not ${DELTA}`, {
    hint: 'JSON with "parameters", with "payload", or an event; or base64 text',
  });
}

const whole = (name: string, delta: WeightedDelta['delta']): WeightedDelta => ({
  delta,
  weight: 1,
  name,
});

/** Reads and verifies the event in a file. */
export const readEventFile = async (path: string): Promise<ReferenceEvent> =>
  openEvent(await readTextFile(path, 'an event'), path);

/** Parses and verifies the event in the text of a file. */
async function openEvent(text: string, path: string): Promise<ReferenceEvent> {
  const options = { limits: await payloadLimits(), crypto: nativeCrypto };
  const read = readReferenceEvent(parseEvent(text, path), options);
  if (read.ok) return read.value;
  const { at, message } = read.issue;
  throw new ConfigError('event/refused', `${path} is not a valid event, ${at}: ${message}`, {
    hint: 'build it again with build-event, build-heartbeat or build-checkpoint',
  });
}

function parseEvent(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw notJson(path, error);
  }
}

const notJson = (path: string, cause: unknown): ConfigError =>
  new ConfigError('event/json', `${path} is not JSON`, { cause });

/** Limits of a payload on this machine: any model that can be printed. */
const payloadLimits = async (): Promise<ForeignNstrLimits> => ({
  ...defaultPayloadLimits,
  zstd: await openZstd(),
});

const EVENTS = 'aggregate-payloads and outer-step also read gradient events';

/** Reads the payload in a file, as base64 without line breaks. */
export async function readPayloadText(path: string): Promise<string> {
  const text = await readTextFile(path, 'a payload');
  if (!text.startsWith('{')) return text.replace(/\s+/g, '');
  const { payload } = readJsonText(text, path, 'a payload');
  if (typeof payload === 'string') return payload;
  throw new ConfigError('payload/missing', `${path} has no "payload" member`, {
    hint: `use a file that \`nostrain encode-delta\` wrote; ${EVENTS}`,
  });
}

/** Decodes a payload. Throws a ConfigError that names its file. */
export async function openPayload(payload: string, path: string): Promise<ForeignNstr> {
  const read = readNstr(payload, await payloadLimits());
  if (read.ok) return read.value;
  const { at, message } = read.issue;
  throw new ConfigError('payload/refused', `${path} is not a valid payload, ${at}: ${message}`, {
    hint: 'ask its author to send the payload again',
  });
}

/** Reads the improvement (after - before) from a payload file. */
export const readPayload = async (path: string): Promise<Params> =>
  wholeDelta(await openPayload(await readPayloadText(path), path));

/** Returns a payload and its sizes with the Python reference's JSON members. */
export const payloadJson = ({
  payload,
  stats,
}: Pick<EncodedNstr, 'payload' | 'stats'>): PythonObject => ({
  payload,
  stats: {
    codec: stats.codec,
    topk_ratio: stats.ratio,
    total_values: BigInt(stats.total),
    selected_values: BigInt(stats.selected),
    density: stats.density,
    parameter_count: BigInt(stats.tensors),
    scale: stats.scale,
    wire_bytes: BigInt(stats.containerBytes),
    encoded_bytes: BigInt(stats.payloadChars),
    dense_bytes: BigInt(stats.denseBytes),
    compression_ratio: stats.compressionRatio,
    compression_label: stats.label,
  },
});
