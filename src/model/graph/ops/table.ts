/** The table of op rules by name. An op without a rule does not compile. */
import type { OpAttributes, OpRule } from '../rule.ts';
import { attention, decoding } from './attention.ts';
import { composite } from './composite.ts';
import { elementwise } from './elementwise.ts';
import { matrix } from './matrix.ts';
import { choosing, indexing, reducing } from './selecting.ts';
import { shaping } from './shaping.ts';
import { widening } from './widening.ts';

export const ops: { readonly [K in keyof OpAttributes]: OpRule<OpAttributes[K]> } = {
  ...elementwise,
  ...matrix,
  ...shaping,
  ...reducing,
  ...choosing,
  ...indexing,
  ...composite,
  ...widening,
  ...attention,
  ...decoding,
};
