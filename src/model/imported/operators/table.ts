/**
 * The ONNX operators that can be trained, by name. To add one: a function in a file of this folder, written with the
 * graph's ops, whose derivatives then follow; a new op with a derivative is an object in `src/model/graph/ops`.
 */
import type { Operator } from '../call.ts';
import { elementwise } from './elementwise.ts';
import { products } from './products.ts';
import { recurrent } from './recurrent.ts';
import { shaping } from './shaping.ts';
import { windows } from './windows.ts';

export const operators: ReadonlyMap<string, Operator> = new Map(
  Object.entries({ ...elementwise, ...shaping, ...products, ...windows, ...recurrent }),
);
