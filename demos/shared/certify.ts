/** Demos with `--certified`: the run's spec, with the base or the data by its hashes, published for the workers that are its founders. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeSpec } from '../../src/certified/make-spec.ts';
import { dataOfSpec } from '../../src/cli/shared/spec-data.ts';
import { openBase, startFrom } from '../../src/node/pretrained/base-model.ts';
import type { PartialSettings } from '../../src/run/settings.ts';
import { canonicalSpec, type RunSpec } from '../../src/run/spec/run-spec.ts';
import type { Untyped } from '../../src/run/spec/spec-readers.ts';
import { announce, type Hand } from '../certified/crew.ts';

export interface Certifying {
  readonly name: string;
  readonly dir: string;
  readonly settings: PartialSettings;
  /** Over what such demos have in common. */
  readonly rules?: Untyped;
  readonly corpus: string | undefined;
  readonly relays: readonly string[];
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

/** The spec, and its file. */
export async function certify(
  hands: readonly [Hand, ...Hand[]],
  { name, dir, settings, rules = {}, corpus, relays, onNotice, signal }: Certifying,
): Promise<{ readonly spec: RunSpec; readonly file: string }> {
  const { heartbeatInterval: _, ...training } = settings;
  const { spec } = await makeSpec({
    document: {
      name: `demo ${name}`,
      founders: hands.map(({ pubkey }) => pubkey).sort(),
      committee: { quorum: 'bft' },
      // whoever shares a processor with three others may be slow
      timing: { graceMinMs: 5000, graceMaxMs: 600_000, viewMs: 30_000, recoveryMs: 0 },
      ...rules,
    },
    typed: {},
    training,
    me: hands[0].pubkey,
    start: async (of) => startFrom(await openBase(of, { onNotice, signal }), of),
    ...(await dataOfSpec({ corpus }, { onNotice, signal })),
  });
  const file = join(dir, 'run.json');
  await writeFile(file, canonicalSpec(spec));
  await announce(spec, hands[0], relays, signal);
  return { spec, file };
}
