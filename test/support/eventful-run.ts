/** Runs that many tests read and none changes, generated once for each process. */
import {
  type Certified,
  gather,
  genesisOf,
  hasModel,
  replay,
  startOf,
} from 'nostrain/certified/parts';
import { nativeCrypto } from 'nostrain/node';
import type { Decided } from '../../src/certified/decisions/certificate.ts';
import type { Gathered } from '../../src/certified/decisions/evidence.ts';
import {
  certifiedSpec,
  foundersOf,
  type GeneratedRun,
  generateRun,
  signerOf,
} from './certified-run.ts';

const made = new Map<string, GeneratedRun>();

/** Returns the run that `generate` makes, made at the first call with this name. */
export function runOnce(name: string, generate: () => GeneratedRun): GeneratedRun {
  const run = made.get(name) ?? generate();
  made.set(name, run);
  return run;
}

/** The run of `eventful` rounds. */
export const eventfulRun = (): GeneratedRun => runOnce('eventful', generateRun);

/** A run of 12 founders whose second outcome does not fit into its event. */
export const largeRun = (): GeneratedRun =>
  runOnce('large', () =>
    generateRun([{ wordy: true }, { leaves: [4] }], certifiedSpec({ founders: foundersOf(12) })),
  );

const evidence = new Map<string, ReturnType<typeof gather>>();

/** Returns the evidence in the events of a run, gathered at the first call with this name. */
export function evidenceOf(name: string, run: GeneratedRun): ReturnType<typeof gather> {
  const gathered = evidence.get(name) ?? gather(run.events, run, { crypto: nativeCrypto });
  evidence.set(name, gathered);
  return gathered;
}

/** The evidence in the events of `eventfulRun`. */
export const eventfulEvidence = () => evidenceOf('eventful', eventfulRun());

interface PlayedRound {
  readonly before: Certified;
  readonly decided: Decided;
}

let steps: readonly PlayedRound[] | undefined;

/** The state before a round of `eventfulRun`, and its outcome. */
export function eventfulRound(round: number): PlayedRound {
  const { spec } = eventfulRun();
  steps ??= [...replay(genesisOf(spec, startOf(spec)), eventfulEvidence())].map(
    ({ before, decided }) => {
      if (decided === undefined || !hasModel(before)) throw new Error('not replayed');
      return { before, decided };
    },
  );
  return steps[round]!;
}

export const keyOf = (number: number) => signerOf(number).publicKey;

/** The evidence of `eventfulRun` with some of its answers replaced. */
export const but = (change: Partial<Gathered>): Gathered => ({ ...eventfulEvidence(), ...change });

/** Returns what a ruling says: `valid`, `missing` or why it is invalid. */
export const codeOf = (ruling: object) =>
  'missing' in ruling
    ? 'missing'
    : 'invalid' in ruling
      ? (ruling.invalid as { code: string }).code
      : 'valid';
