/** Deltas in files of every kind: a JSON state, a payload, a gradient event (which has a weight), or base64 text. */
import { ConfigError } from '../../../base/errors.ts';
import { wholeDelta } from '../../codec/delta-payload.ts';
import { parseStateJson } from '../../formats/state-json.ts';
import type { WeightedDelta } from '../../outer/weighted-deltas.ts';
import { openEvent } from '../events/event-file.ts';
import { openPayload } from './payload-file.ts';
import { readJsonText, readTextFile } from './text-file.ts';

const WHAT = 'a delta, a payload or a gradient event';

/** The improvement (after - before) in a file; an event weighs its examples, everything else 1. */
export async function readDelta(path: string): Promise<WeightedDelta> {
  const text = await readTextFile(path, WHAT);
  if (!text.startsWith('{')) {
    return whole(path, wholeDelta(await openPayload(text.replace(/\s+/g, ''), path)));
  }
  const json = readJsonText(text, path, WHAT);
  if (json.parameters !== undefined) return whole(path, parseStateJson(text));
  if (json.kind !== undefined && json.content !== undefined) {
    const read = await openEvent(text, path);
    if (read.type === 'gradient') {
      return { delta: wholeDelta(read.payload), weight: read.said.examples ?? 1, name: path };
    }
    throw new ConfigError('delta/kind', `${path} is a ${read.type} event and holds no delta`, {
      hint: 'give gradient events (kind 33333)',
    });
  }
  if (typeof json.payload === 'string') {
    return whole(path, wholeDelta(await openPayload(json.payload, path)));
  }
  throw new ConfigError('delta/unknown', `${path} is not ${WHAT}`, {
    hint: 'JSON with "parameters", with "payload", or an event; or base64 text',
  });
}

const whole = (name: string, delta: WeightedDelta['delta']): WeightedDelta => ({
  delta,
  weight: 1,
  name,
});
