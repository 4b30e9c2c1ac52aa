/** The protocol of runs whose settings name validators, which merge contributions. */
import { ValidatorLink } from '../merging/link.ts';
import { createMerging, type MergingGroup } from '../merging/strategy.ts';
import { modelOf } from '../model/from-settings.ts';
import { expertRanges } from '../model/parameters.ts';
import { mostPayloadBytes } from '../network/codec/codecs.ts';
import { createWire } from '../network/wire/create-wire.ts';
import { createPacker } from '../network/wire/packer.ts';
import { groupsOf } from '../run/groups.ts';
import type { Settings } from '../run/settings.ts';
import { runWorker } from '../worker/loop.ts';
import { noMembers } from '../worker/state-file.ts';
import { nativeSha256 } from './native/sha256.ts';
import { LONGEST_EVENT_BYTES, type Protocol } from './protocol.ts';

/** Returns the protocol of a worker or validator of a run with these settings. */
export const mergingProtocol = (settings: Settings): Protocol => ({
  members: noMembers,
  longestEventBytes: LONGEST_EVENT_BYTES,
  first: async (genesis) => genesis,
  async open(options) {
    const { layout, peers, sha256 = nativeSha256 } = options;
    const { validators, mergeTop: most, mergeCutoff: cutoff, mergeRetries: retries } = settings;
    const wire = createWire(options);
    // a state has 8 bytes for each parameter
    const maxBytes = Math.max(8 * layout.size, mostPayloadBytes(layout));
    const link = new ValidatorLink({ ...options, sha256, validators, workers: peers, maxBytes });
    const packer = createPacker({ ...options, sha256, packing: 'int8' });
    const timeoutMs = 1000 * settings.mergeTimeout;
    const timing = {
      startMs: 1000 * settings.mergeStart,
      trainMs: 1000 * settings.mergeTrain,
      scoreMs: timeoutMs,
      timeoutMs,
      retries,
    };
    return {
      wire,
      play(start, session) {
        const plan = { ...session.plan, residual: 'none', refusesLate: false } as const;
        const how = { link, packer, timing, most, cutoff };
        const strategy = createMerging({ ...session, plan }, how, groupIn(settings));
        return runWorker(start, { ...session, plan }, strategy).finally(() => link.close());
      },
    };
  },
});

/** Returns the group of experts that the settings name; undefined if the run trains all tensors. */
function groupIn(settings: Settings): MergingGroup | undefined {
  const group = groupsOf(settings).find(({ name }) => name === settings.group);
  if (group === undefined) return undefined;
  const [, ...experts] = expertRanges(modelOf(settings));
  return { name: group.name, trains: group.experts.map((expert) => experts[expert]!) };
}
