/** Runs whose workers prove what their machines run; the machines are simulated. */
import type { RunSpec } from 'nostrain/run';
import { runIdOf } from 'nostrain/run';
import { writeEvidence } from '../../src/attest/evidence.ts';
import { simulateEvidence } from '../../src/attest/vendors.ts';
import type { JoinCredentials, JoinPoint } from '../../src/certified/decisions/admission.ts';
import { userDataFor } from '../../src/certified/decisions/machines.ts';
import { keyOf } from '../support/certified-swarm.ts';

const CODE = new Uint8Array(48).fill(0xaa);
const OTHER_CODE = new Uint8Array(48).fill(0xbb);

const sealKeyOf = (worker: number): string => worker.toString(16).padStart(64, '0');

/**
 * Adds sealed data for these workers, and machines that must prove what they run. Workers of a world have no data, so
 * the reader of specs would refuse it.
 */
export const withMachines = (spec: RunSpec, workers: number): RunSpec => ({
  ...spec,
  features: [...spec.features, 'machines' as const, 'sealed' as const].sort(),
  machines: { ...spec.machines, vendors: ['simulated'], measurements: ['aa'.repeat(48)] },
  sealed: {
    manifest: `tee://${'5e'.repeat(32)}`,
    id: '1d'.repeat(32),
    recipients: Array.from({ length: workers }, (_, i) => `${keyOf(i)}:${sealKeyOf(i)}`).sort(),
  },
});

/** Returns what the join of a worker says about its machine after the last outcome. */
export const machineIn =
  (spec: RunSpec, worker: number) =>
  (now?: JoinPoint): JoinCredentials => {
    if (now === undefined || spec.machines.vendors.length === 0) return { evidence: '' };
    const sealKey = sealKeyOf(worker);
    const after = now.parent;
    const bound = userDataFor(runIdOf(spec), { key: keyOf(worker), after }, sealKey);
    const evidence = writeEvidence(simulateEvidence(CODE, Buffer.from(bound, 'hex')));
    return { evidence: '', after, features: { machines: { evidence, sealKey } } };
  };

/** What a hostile joiner says about its machine instead. */
export const wrongMachines = {
  'other-code': () => ({
    evidence: writeEvidence(simulateEvidence(OTHER_CODE, new Uint8Array(64))),
  }),
  'unknown-key': () => ({ sealKey: 'ff'.repeat(32) }),
  'no-evidence': () => ({ evidence: 'x'.repeat(1000) }),
} as const;
