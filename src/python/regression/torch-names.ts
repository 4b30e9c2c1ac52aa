/**
 * The regression models as PyTorch names them: `nn.Linear`, and an `nn.Sequential` of `hidden`, `activation` and
 * `output`. On reading, names that all share a first part (`module.`, `model.net.`) lose it.
 */
import { ConfigError } from '../../base/errors.ts';
import { stateOfTensors, tensorsOfState } from '../../formats/named-state.ts';
import type { Pickled } from '../../formats/torch-pickle.ts';
import type { RegressionTask } from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';
import type { NamedTensor } from '../../tensor/safetensors.ts';
import { readModel } from './layout.ts';

/** Our name of each tensor by PyTorch's. */
const names: Readonly<Record<RegressionTask, Readonly<Record<string, string>>>> = {
  'linear-regression': { bias: 'linear.bias', weight: 'linear.weight' },
  'mlp-regression': {
    'hidden.bias': 'mlp.hidden.bias',
    'hidden.weight': 'mlp.hidden.weight',
    'output.bias': 'mlp.output.bias',
    'output.weight': 'mlp.output.weight',
  },
};

/** The runtime somebody wrote down; undefined for any other text. */
export function parseRuntime(text: string): RegressionTask | undefined {
  const name = text.trim().toLowerCase();
  return name === 'linear-regression' || name === 'mlp-regression' ? name : undefined;
}

/**
 * The runtime whose state this is. Throws a ConfigError for any other state, or when it is not the one asked for.
 *
 * @example
 * ```ts
 * import { inferTrainingRuntimeFromState, initializeLinearRegressionState } from 'nostrain/python';
 *
 * inferTrainingRuntimeFromState(initializeLinearRegressionState(2)); // => 'linear-regression'
 * ```
 */
export function runtimeOfState(params: Params, asked?: RegressionTask): RegressionTask {
  const { runtime } = readModel(params);
  if (asked === undefined || asked === runtime) return runtime;
  throw new ConfigError('state/runtime', `the state is ${runtime}, not ${asked}`, {
    hint: 'use a state and a dataset of the same runtime',
  });
}

/**
 * A regression state under PyTorch's names, sorted by name. Throws a ConfigError for any other state.
 *
 * @example
 * ```ts
 * import { exportPytorchStateDict, initializeLinearRegressionState } from 'nostrain/python';
 *
 * const { layout } = exportPytorchStateDict(initializeLinearRegressionState(2));
 * layout.slots.map(({ name }) => name); // => ['bias', 'weight']
 * ```
 */
export function exportTorchStateDict(params: Params, asked?: RegressionTask): Params {
  const ours = Object.entries(names[runtimeOfState(params, asked)]);
  const renamed = tensorsOfState(params).map((tensor) => ({
    ...tensor,
    name: ours.find(([, name]) => name === tensor.name)![0],
  }));
  return sorted(renamed);
}

/**
 * A regression state out of one with PyTorch's names, whatever first part (`module.`) they share. Throws a ConfigError when the
 * names or shapes are of no runtime.
 *
 * @example
 * ```ts
 * import { createLayout, importPytorchStateDict } from 'nostrain/python';
 *
 * const layout = createLayout([
 *   { name: 'module.bias', shape: [1] },
 *   { name: 'module.weight', shape: [1, 2] },
 * ]);
 * const state = importPytorchStateDict({ layout, values: Float64Array.of(1, 2, 3) });
 * state.layout.slots.map(({ name }) => name); // => ['linear.bias', 'linear.weight']
 * ```
 */
export function importTorchStateDict(stateDict: Params, asked?: RegressionTask): Params {
  const tensors = tensorsOfState(stateDict);
  const runtimes = asked === undefined ? runtimeNames : [asked];
  for (let cut: Cut | undefined = { tensors }; cut; cut = withoutPrefix(cut)) {
    const found = cut.tensors
      .map(({ name }) => name)
      .sort()
      .join();
    const runtime = runtimes.find((name) => Object.keys(names[name]).sort().join() === found);
    if (runtime === undefined) continue;
    const theirs = names[runtime];
    const params = sorted(cut.tensors.map((each) => ({ ...each, name: theirs[each.name]! })));
    runtimeOfState(params, runtime);
    return params;
  }
  const found = tensors.slice(0, 4).map(({ name }) => name.slice(0, 80));
  throw new ConfigError('state/model', `no ${runtimes.join(' or ')} has tensors named ${found}`, {
    hint: 'PyTorch states are read for nn.Linear and for hidden and output layers of an mlp',
  });
}

/**
 * The runtime of a state with PyTorch's names. Throws a ConfigError when the names or shapes are of none.
 *
 * @example
 * ```ts
 * import { createLayout, inferTrainingRuntimeFromPytorchStateDict } from 'nostrain/python';
 *
 * const layout = createLayout([
 *   { name: 'bias', shape: [1] },
 *   { name: 'weight', shape: [1, 2] },
 * ]);
 * const stateDict = { layout, values: new Float64Array(3) };
 * inferTrainingRuntimeFromPytorchStateDict(stateDict); // => 'linear-regression'
 * ```
 */
export const runtimeOfTorchStateDict = (stateDict: Params): RegressionTask =>
  runtimeOfState(importTorchStateDict(stateDict));

const runtimeNames: readonly RegressionTask[] = ['linear-regression', 'mlp-regression'];

interface Cut {
  readonly tensors: readonly NamedTensor[];
}

/** Names without the first part they all share, or undefined. */
function withoutPrefix({ tensors }: Cut): Cut | undefined {
  const prefix = /^[^.]*\./.exec(tensors[0]?.name ?? '')?.[0];
  if (prefix === undefined || !tensors.every(({ name }) => name.startsWith(prefix)))
    return undefined;
  return { tensors: tensors.map((each) => ({ ...each, name: each.name.slice(prefix.length) })) };
}

function sorted(tensors: readonly NamedTensor[]): Params {
  const params = stateOfTensors(tensors);
  if (params.ok) return params.value;
  throw new ConfigError('state/model', `${params.issue.at}: ${params.issue.message}`);
}

/** An exported state as a whole module, ready to be called in PyTorch. */
export function torchModule(exported: Params): Pickled {
  const tensors = tensorsOfState(exported);
  const linear = (prefix: string): Pickled => {
    const [bias, weight] = ['bias', 'weight'].map(
      (name) => tensors.find((tensor) => tensor.name === prefix + name)!,
    );
    // a file may leave the dimension of one out; the module has it
    const [outputs, inputs] = weight!.shape.length === 2 ? weight!.shape : [1, weight!.shape[0]];
    return module('torch.nn.modules.linear Linear', {
      parameters: [
        ['weight', parameter([outputs!, inputs!], weight!)],
        ['bias', parameter([outputs!], bias!)],
      ],
      more: [
        ['in_features', inputs!],
        ['out_features', outputs!],
      ],
    });
  };
  if (tensors.length === 2) return linear('');
  return module('torch.nn.modules.container Sequential', {
    modules: [
      ['hidden', linear('hidden.')],
      ['activation', module('torch.nn.modules.activation Tanh', {})],
      ['output', linear('output.')],
    ],
  });
}

const parameter = (shape: readonly number[], { values }: NamedTensor): Pickled => ({
  kind: 'parameter',
  tensor: { shape, values },
});

type Items = readonly (readonly [string, Pickled])[];

/** What every module has had since PyTorch 1.13, in the order it lists them. */
function module(
  type: string,
  parts: { readonly parameters?: Items; readonly modules?: Items; readonly more?: Items },
): Pickled {
  const ordered = (items: Items = []): Pickled => ({ kind: 'ordered', items });
  const hooks = [
    '_backward_pre_hooks',
    '_backward_hooks',
    '_forward_hooks',
    '_forward_hooks_with_kwargs',
    '_forward_hooks_always_called',
    '_forward_pre_hooks',
    '_forward_pre_hooks_with_kwargs',
    '_state_dict_hooks',
    '_state_dict_pre_hooks',
    '_load_state_dict_pre_hooks',
    '_load_state_dict_post_hooks',
  ];
  return {
    kind: 'object',
    type,
    members: [
      ['training', true],
      ['_parameters', ordered(parts.parameters)],
      ['_buffers', ordered()],
      ['_non_persistent_buffers_set', { kind: 'empty-set' }],
      ['_is_full_backward_hook', null],
      ...hooks.map((name) => [name, ordered()] as const),
      ['_modules', ordered(parts.modules)],
      ...(parts.more ?? []),
    ],
  };
}
