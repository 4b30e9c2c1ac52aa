/** The table of op rules by name. An op without a rule does not compile. */
import type { OpRule } from '../rule.ts';
import type { OpAttributes } from '../signatures.ts';
import { attention } from './attention.ts';
import { choosing } from './choosing.ts';
import { composite } from './composite.ts';
import { decoding } from './decoding.ts';
import { elementwise } from './elementwise.ts';
import { indexing } from './indexing.ts';
import { matrix } from './matrix.ts';
import { reducing } from './reducing.ts';
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
