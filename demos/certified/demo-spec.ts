/** The spec of the demo's run: a GPT small enough for seven of it on two cores, and times that fit such a machine. */

import { makeSpec } from '../../src/certified/make-spec.ts';
import { dataOfSpec } from '../../src/cli/shared/spec-data.ts';
import type { WorkerId } from '../../src/run/ids.ts';
import type { RunSpec } from '../../src/run/spec/run-spec.ts';
import type { Untyped } from '../../src/run/spec/spec-readers.ts';

export interface DemoSpecOptions {
  readonly stake: Untyped;
  readonly corpus: string;
  readonly quick: boolean;
  readonly seed: number;
  readonly signal: AbortSignal;
  onNotice(message: string): void;
}

/** Rounds of the demo: see crew.ts for what happens in which. */
const ROUNDS = 8;

export async function demoSpec(
  workers: readonly { readonly pubkey: WorkerId }[],
  { stake, corpus, quick, seed, onNotice, signal }: DemoSpecOptions,
): Promise<RunSpec> {
  const founders = workers.map(({ pubkey }) => pubkey);
  const { spec } = await makeSpec({
    document: {
      name: 'demo certified',
      founders: [...founders].sort(),
      stake,
      screening: true,
      scores: true,
      telemetry: true,
      committee: { size: 64, quorum: 'bft', weights: 'stake', minStake: '1' },
      timing: {
        graceMinMs: 2000,
        graceMaxMs: 60_000,
        deadlineC: 4,
        viewMs: 10_000,
        recoveryMs: 0,
      },
    },
    typed: {},
    training: {
      model: 'char-gpt',
      width: 32,
      layers: 2,
      heads: 2,
      context: 32,
      ffn: 128,
      batchSize: 8,
      innerSteps: quick ? 5 : 40,
      rounds: ROUNDS,
      seed,
    },
    me: founders[0]!,
    ...(await dataOfSpec({ corpus }, { onNotice, signal })),
  });
  return spec;
}
