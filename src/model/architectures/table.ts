/** The architectures by name. A new one is a file, a line here, and its spec in `src/run/model-spec.ts`. */
import { ConfigError } from '../../base/errors.ts';
import type { ModelSpec } from '../../run/model-spec.ts';
import type { Architecture, Model } from './architecture.ts';
import { gpt } from './gpt.ts';
import { linear } from './linear.ts';
import { mlp } from './mlp.ts';

type Name = ModelSpec['architecture'];
type SpecOf = { readonly [A in Name]: Extract<ModelSpec, { readonly architecture: A }> };

const architectures: { readonly [A in Name]: Architecture<SpecOf[A]> } = { linear, mlp, gpt };

/** The model a spec describes. Throws a `ConfigError` when a size is impossible. */
export function modelOf<A extends Name>(spec: SpecOf[A] & { readonly architecture: A }): Model {
  checkSizes(spec);
  return architectures[spec.architecture](spec);
}

function checkSizes(spec: ModelSpec): void {
  for (const [name, value] of Object.entries(spec)) {
    if (name === 'architecture') continue;
    for (const size of Array.isArray(value) ? value : [value]) {
      if (!Number.isSafeInteger(size) || size < 1) {
        throw new ConfigError(
          'model/size',
          `model.${name} must be whole and positive, not ${size}`,
        );
      }
    }
  }
  if (spec.architecture === 'mlp' && spec.hidden.length === 0) {
    throw new ConfigError('model/size', 'model.hidden needs at least one layer', {
      hint: 'use the linear architecture for a model without hidden layers',
    });
  }
  if (spec.architecture === 'gpt' && spec.width % spec.heads !== 0) {
    throw new ConfigError(
      'model/heads',
      `model.width ${spec.width} does not divide into ${spec.heads} heads`,
    );
  }
}
