/** The forms a state is stored in, by the names of the Python reference, and what the name of a file says of it. */

/**
 * `safetensors` is ours, the others the Python reference's.
 *
 * @example
 * ```ts
 * import { stateFormats } from 'nostrain/python';
 *
 * stateFormats; // => ['json', 'numpy-npz', 'pytorch-state-dict', 'safetensors']
 * ```
 */
export const stateFormats = ['json', 'numpy-npz', 'pytorch-state-dict', 'safetensors'] as const;

export type StateFormat = (typeof stateFormats)[number];

/** The endings of a file name, in lower case: `.pt` and `.npz` of `x.PT.npz`. */
function endings(path: string): readonly string[] {
  const name = (path.split(/[/\\]/).at(-1) ?? '').replace(/^\.+/, '');
  return name.toLowerCase().match(/\.[^.]+/g) ?? [];
}

/**
 * The format a file's name promises; JSON unless it says otherwise.
 *
 * @example
 * ```ts
 * import { inferStateFormatFromPath } from 'nostrain/python';
 *
 * inferStateFormatFromPath('run/state.pt'); // => 'pytorch-state-dict'
 * inferStateFormatFromPath('run/state.npz'); // => 'numpy-npz'
 * inferStateFormatFromPath('run/state.json'); // => 'json'
 * ```
 */
export function inferStateFormat(path: string): StateFormat {
  const [before, last] = ['', ...endings(path)].slice(-2);
  if (last === '.npz') return before && isTorch(before) ? 'pytorch-state-dict' : 'numpy-npz';
  if (last === '.safetensors') return 'safetensors';
  return isTorch(last) ? 'pytorch-state-dict' : 'json';
}

/** Whether a PyTorch state of this name is PyTorch's own file; else it is an archive of NumPy's. */
export const isNativeTorch = (path: string): boolean => isTorch(endings(path).at(-1));

const isTorch = (ending: string | undefined): boolean => ending === '.pt' || ending === '.pth';
