/** A small model as PyTorch would export it: rows of three numbers to one number. */
import { encodeModel } from 'nostrain/model';
import type { OnnxGraph, OnnxTensor } from '../../src/model/onnx.ts';

const tensor = (name: string, shape: readonly number[], of: readonly number[]): OnnxTensor => ({
  name,
  dtype: 'f32',
  shape,
  bytes: new Uint8Array(Float32Array.from(of).buffer),
});

/** Returns an ONNX file with a linear layer; its first weight is given. */
export function linearOnnx(weight: number): Uint8Array {
  const graph: OnnxGraph = {
    name: 'line',
    nodes: [
      {
        type: 'Gemm',
        inputs: ['x', 'layer.weight', 'layer.bias'],
        outputs: ['y'],
        attributes: { transB: { int: 1 } },
        domain: '',
      },
    ],
    constants: [tensor('layer.weight', [1, 3], [weight, 0.1, 0]), tensor('layer.bias', [1], [0.5])],
    inputs: [{ name: 'x', dtype: 'f32', shape: ['batch', 3] }],
    outputs: [{ name: 'y', dtype: 'f32', shape: ['batch', 1] }],
  };
  return encodeModel(graph);
}
