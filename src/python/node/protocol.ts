/** The protocol of runs with profile nostrain/0, for a worker that keeps no records of the Python reference. */
import type { Protocol } from '../../node/protocol.ts';
import { noMembers } from '../../worker/state-file.ts';
import type { BlockCodec } from '../codec/container.ts';
import { createPythonWire } from '../wire/profile.ts';
import { gradientEvents, measureCheckpoint, measureGradient } from '../wire/sizes.ts';
import { runPythonWorker } from '../worker/strategy.ts';
import { openZstd } from './zstd.ts';

/** Returns the protocol; `codec` compresses the payloads it sends. */
export const pythonProtocol = (codec: BlockCodec): Protocol => ({
  members: noMembers,
  sizes: {
    ...gradientEvents,
    largestEvent: measureGradient,
    checkpointBytes: measureCheckpoint,
  },
  first: async (genesis) => genesis,
  async open(options) {
    const { wire, events } = createPythonWire({ ...options, codec, zstd: await openZstd() });
    return { wire, play: (start, session) => runPythonWorker(start, { ...session, events }) };
  },
});
