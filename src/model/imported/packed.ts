/**
 * An imported model as the two files of a certified run: the canonical graph as JSON, and the elements of its tensors
 * one after another, as little-endian f32.
 */
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { canonicalJson, jsonIn } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import type { ImportedShape } from '../../run/spec/imported-shape.ts';
import { readNumbers } from '../../tensor/dtype.ts';
import { allFinite, bytesOfVector, type Layout } from '../../tensor/params.ts';
import type { CustomModel } from '../architectures/architecture.ts';
import { sizeOf } from '../graph/rule.ts';
import { modelLayout } from '../parameters.ts';
import { readGraph, writeGraph } from './graph.ts';
import type { Imported } from './import-onnx.ts';

/** Maximum length of the graph's file, which is parsed as a whole. */
export const MOST_GRAPH_BYTES = 2 ** 24;

export interface PackedModel {
  readonly graph: Uint8Array;
  readonly weights: Uint8Array;
}

/** Returns the files of a model. */
export const packImported = ({ graph, elementsOf }: Imported): PackedModel => ({
  graph: utf8(canonicalJson(writeGraph(graph))),
  weights: concatBytes(...graph.tensors.map(({ name }) => bytesOfVector(elementsOf(name)))),
});

/** Returns the model in these untrusted files. Throws a ConfigError (`onnx/graph`) if they do not fit together. */
export function unpackImported({ graph: bytes, weights }: PackedModel): Imported {
  if (bytes.length > MOST_GRAPH_BYTES) throw unfit(`it has ${bytes.length} bytes`);
  const graph = readGraph(jsonIn(new TextDecoder().decode(bytes)));
  const parts = new Map<string, Uint8Array>();
  let at = 0;
  for (const { name, shape } of graph.tensors) {
    const end = at + 4 * sizeOf(shape);
    parts.set(name, weights.subarray(at, end));
    at = end;
  }
  if (at !== weights.length) throw unfit(`it has ${at} bytes of weights, not ${weights.length}`);
  const elementsOf = (name: string) => readNumbers('f32', parts.get(name)!) as Float32Array;
  const broken = graph.tensors.find((each) => {
    return each.role !== 'frozen' && !allFinite(elementsOf(each.name));
  });
  if (broken) throw unfit(`${broken.name} has numbers that are not finite`);
  return { graph, elementsOf };
}

/** Returns the weights of a model in the order of its layout. */
export function firstParameters({ elementsOf }: Imported, { slots, size }: Layout): Float32Array {
  const values = new Float32Array(size);
  for (const { name, offset } of slots) values.set(elementsOf(name), offset);
  return values;
}

const unfit = (why: string): ConfigError =>
  new ConfigError('onnx/graph', `the model of the run does not fit its graph: ${why}`, {
    hint: 'ask the creator of the run for a new one',
  });

/** Returns what a run spec says about an imported model. */
export const importedShape = (model: CustomModel): ImportedShape => ({
  architecture: 'onnx',
  data: model.data,
  tensors: modelLayout(model).slots.map(({ name, shape }) => ({ name, shape })),
});
