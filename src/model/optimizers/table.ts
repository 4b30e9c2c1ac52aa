/** The inner optimizers by name. To add one: a file, a line here, and its spec in `src/run/spec/model-spec.ts`. */
import type { OptimizerSpec } from '../../run/spec/model-spec.ts';
import { muon } from './muon.ts';
import type { HiddenMatrix, Optimizer, OptimizerRule } from './optimizer.ts';
import { adamw, sgd } from './optimizer.ts';

type Name = OptimizerSpec['optimizer'];
type SpecOf = { readonly [O in Name]: Extract<OptimizerSpec, { readonly optimizer: O }> };

const optimizers: { readonly [O in Name]: OptimizerRule<SpecOf[O]> } = { sgd, adamw, muon };

/** Returns the optimizer of a spec, for a model with these hidden matrices. */
export const optimizerOf = <O extends Name>(
  spec: SpecOf[O] & { readonly optimizer: O },
  matrices: readonly HiddenMatrix[],
): Optimizer => optimizers[spec.optimizer](spec, matrices);
