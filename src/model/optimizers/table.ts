/** The inner optimizers by name. A new one is a file, a line here, and its spec in `src/run/model-spec.ts`. */
import type { OptimizerSpec } from '../../run/model-spec.ts';
import { adamw } from './adamw.ts';
import type { Optimizer, OptimizerRule } from './optimizer.ts';
import { sgd } from './sgd.ts';

type Name = OptimizerSpec['optimizer'];
type SpecOf = { readonly [O in Name]: Extract<OptimizerSpec, { readonly optimizer: O }> };

const optimizers: { readonly [O in Name]: OptimizerRule<SpecOf[O]> } = { sgd, adamw };

/** The optimizer a spec describes. */
export const optimizerOf = <O extends Name>(
  spec: SpecOf[O] & { readonly optimizer: O },
): Optimizer => optimizers[spec.optimizer](spec);
