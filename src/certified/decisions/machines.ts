/**
 * Decides whether a run accepts the machine of a joiner: a pure function of the join, the spec and the time of the
 * outcome that lists the join, so that a replay reaches the same verdict.
 */
import { readEvidence, userDataOf } from '../../attest/evidence.ts';
import { judgeEvidence } from '../../attest/vendors.ts';
import type { Issue } from '../../base/errors.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { FeatureValues } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';

/** What a join says about its machine. */
export interface MachineJoin {
  readonly key: WorkerId;
  /** Digest of a recent outcome, which makes the evidence fresh. */
  readonly after: Digest;
  readonly features?: Pick<FeatureValues<'join'>, 'machines'>;
}

/** Returns what a machine must bind into its evidence. */
export const userDataFor = (run: Digest, { key, after }: MachineJoin, sealKey: string): string =>
  userDataOf({ run, worker: key, sealKey, entropy: after });

const NO_ENVELOPE = 'no part of the data is sealed to this worker';
const OTHER_KEY = 'the data is sealed to another key of this worker';

/** Returns why a machine is refused at a time in Unix seconds, with the field; undefined if it is accepted. */
export function refuseMachine(
  { machines, sealed }: Pick<RunSpec, 'machines' | 'sealed'>,
  run: Digest,
  join: MachineJoin,
  at: number,
): Issue | undefined {
  if (machines.vendors.length === 0) return undefined;
  const { evidence = '', sealKey = '' } = join.features?.machines ?? {};
  // recipients are few, so strangers cannot make members verify evidence
  const envelope = sealed.recipients.find((each) => each.startsWith(`${join.key}:`));
  if (envelope === undefined) {
    return { code: 'no-envelope', at: 'sealed.recipients', message: NO_ENVELOPE };
  }
  if (envelope !== `${join.key}:${sealKey}`) {
    return { code: 'other-key', at: 'machines.sealKey', message: OTHER_KEY };
  }
  const read = readEvidence(evidence);
  if (!read.ok) return read.issue;
  const userData = userDataFor(run, join, sealKey);
  const verdict = judgeEvidence(read.value, { at, policy: machines, userData });
  return verdict.ok ? undefined : verdict.issue;
}
