/** The protocol of runs with profile nostrain/0, for a worker that keeps no records of the Python reference. */
import type { Protocol } from '../../node/protocol.ts';
import { noMembers } from '../../worker/state-file.ts';
import { createPythonWire, type PythonWireSettings } from '../wire/profile.ts';
import { gradientEvents, measureCheckpoint, measureGradient } from '../wire/sizes.ts';
import { runPythonWorker } from '../worker/strategy.ts';
import { openZstd } from './zstd.ts';

/** Returns the protocol of a worker that packs its payloads like this. */
export const pythonProtocol = (packs: Pick<PythonWireSettings, 'codec' | 'ratio'>): Protocol => ({
  members: noMembers,
  sizes: {
    ...gradientEvents,
    largestEvent: (run, layout) => measureGradient(run, layout, packs.ratio),
    checkpointBytes: measureCheckpoint,
  },
  first: async (genesis) => genesis,
  async open(options) {
    const { wire, events } = createPythonWire({ ...options, ...packs, zstd: await openZstd() });
    return { wire, play: (start, session) => runPythonWorker(start, { ...session, events }) };
  },
});
