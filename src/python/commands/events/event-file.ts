/** Single events of the Python reference in files. */
import { ConfigError } from '../../../base/errors.ts';
import { nativeCrypto } from '../../../node/native-crypto.ts';
import { type ReferenceEvent, readReferenceEvent } from '../../wire/reference-event.ts';
import { payloadLimits } from '../payloads/payload-file.ts';
import { readTextFile } from '../payloads/text-file.ts';

/** The event in a file, checked whole. */
export const readEventFile = async (path: string): Promise<ReferenceEvent> =>
  openEvent(await readTextFile(path, 'an event'), path);

/** The event in a text that a file held, checked whole. */
export async function openEvent(text: string, path: string): Promise<ReferenceEvent> {
  const read = readReferenceEvent(parse(text, path), {
    limits: await payloadLimits(),
    crypto: nativeCrypto,
  });
  if (read.ok) return read.value;
  const { at, message } = read.issue;
  throw new ConfigError('event/refused', `${path} is not a sound event, ${at}: ${message}`, {
    hint: 'build it again with build-event, build-heartbeat or build-checkpoint',
  });
}

function parse(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw noJson(path, error);
  }
}

const noJson = (path: string, cause: unknown): ConfigError =>
  new ConfigError('event/json', `${path} is not JSON`, { cause });
