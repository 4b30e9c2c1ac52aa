/** The features of certified runs, in the order in which their hooks are called. */
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { rerun } from './disclosure.ts';
import type { CertifiedFeature } from './feature.ts';
import { jury } from './jury.ts';
import { notes } from './notes.ts';
import { scores } from './scores.ts';
import { screening } from './screening.ts';

const features: readonly CertifiedFeature[] = [rerun, jury, screening, scores, notes];

/** Returns the features that a run uses. */
export const featuresOf = (spec: RunSpec): readonly CertifiedFeature[] =>
  features.filter((feature) => feature.isIn(spec));
