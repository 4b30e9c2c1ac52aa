/**
 * Finding onnxruntime-node, which trains. It is an optional peer of the package: its install script downloads CUDA libraries
 * from outside the npm registry, and fails where it cannot; nobody runs it by installing nostrain.
 */
import { createRequire } from 'node:module';
import { TrainingError } from '../../base/errors.ts';

/** The module's file. Throws `training/no-engine` where it is not installed. */
export function requireEngine(): string {
  try {
    return createRequire(import.meta.url).resolve('onnxruntime-node');
  } catch (error) {
    throw noEngine(error);
  }
}

const noEngine = (cause: unknown) =>
  new TrainingError('training/no-engine', 'training needs onnxruntime-node', {
    hint: ENGINE_HINT,
    cause,
  });

/** How to get it; the CPU build is inside the package, its script fetches CUDA libraries only. */
export const ENGINE_HINT =
  'install it beside nostrain: npm install onnxruntime-node@1.30.0 --ignore-scripts';
