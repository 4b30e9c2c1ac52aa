/** Payloads of the Python reference in files: base64 text, or JSON with a `payload` member. */

import { ConfigError } from '../../../base/errors.ts';
import type { Issue } from '../../../base/result.ts';
import type { Params } from '../../../tensor/params.ts';
import { defaultPayloadLimits, wholeDelta } from '../../codec/delta-payload.ts';
import type { EncodedNstr } from '../../codec/nstr.ts';
import { type ForeignNstr, type ForeignNstrLimits, readNstr } from '../../codec/nstr-foreign.ts';
import type { JsonObject } from '../../json.ts';
import { openZstd } from '../../node/zstd.ts';
import { readJsonText, readTextFile } from './text-file.ts';

/** What a payload may be on this machine: of any model that can be printed. */
export const payloadLimits = async (): Promise<ForeignNstrLimits> => ({
  ...defaultPayloadLimits,
  zstd: await openZstd(),
});

/** The payload in a file, as base64 without line breaks. */
export async function readPayloadText(path: string): Promise<string> {
  const text = await readTextFile(path, 'a payload');
  if (!text.startsWith('{')) return text.replace(/\s+/g, '');
  const { payload } = readJsonText(text, path, 'a payload');
  if (typeof payload === 'string') return payload;
  throw new ConfigError('payload/missing', `${path} has no "payload" member`, {
    hint: 'give what `nostrain encode-delta` wrote; of events, aggregate-payloads and outer-step take the delta',
  });
}

/** What is inside a payload, or an error that names its file. */
export async function openPayload(payload: string, path: string): Promise<ForeignNstr> {
  const read = readNstr(payload, await payloadLimits());
  if (read.ok) return read.value;
  throw payloadError(path, read.issue);
}

/** The improvement (after - before) in a payload file. */
export const readPayload = async (path: string): Promise<Params> =>
  wholeDelta(await openPayload(await readPayloadText(path), path));

/** What a person reads of a payload that is none. */
const payloadError = (path: string, { at, message }: Issue): ConfigError =>
  new ConfigError('payload/refused', `${path} is not a sound payload, ${at}: ${message}`, {
    hint: 'have whoever made the payload send it again',
  });

/** A payload and its sizes in the Python reference's members. */
export const payloadJson = ({
  payload,
  stats,
}: Pick<EncodedNstr, 'payload' | 'stats'>): JsonObject => ({
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
