/** A payload as the reference's commands print it. */

import type { EncodedNstr } from '../../codec/nstr.ts';
import type { JsonObject } from '../../json.ts';

/** A payload and its sizes in the reference's members. */
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
