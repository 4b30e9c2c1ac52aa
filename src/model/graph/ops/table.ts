/** The table of op rules by name. An op without a rule does not compile. */
import type { OpAttributes, OpRule } from '../rule.ts';
import { attention } from './attention.ts';
import { composite } from './composite.ts';
import { convolution } from './convolution.ts';
import { elementwise } from './elementwise.ts';
import { matrix } from './matrix.ts';
import { selecting } from './selecting.ts';
import { shaping } from './shaping.ts';
import { statistics } from './statistics.ts';
import { widening } from './widening.ts';

export const ops: { readonly [K in keyof OpAttributes]: OpRule<OpAttributes[K]> } = {
  ...elementwise,
  ...matrix,
  ...shaping,
  ...selecting,
  ...composite,
  ...widening,
  ...attention,
  ...convolution,
  ...statistics,
};
