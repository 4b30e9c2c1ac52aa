/**
 * Relay trials: finds out what a relay allows by sending it sample events of a run and deleting them again.
 *
 * @module nostrain/probe
 */

export {
  type CheckedRelay,
  type CheckOptions,
  checkRelays,
  type DescribeRelay,
} from './probe.ts';
export type {
  Carries,
  FilterVerdict,
  KindReport,
  KindVerdict,
  RateReport,
  RelayDescription,
  RelayReport,
  SizeReport,
  Verdict,
} from './report.ts';
