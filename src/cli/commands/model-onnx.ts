/** The parts of `nostrain model` for ONNX files: what a file holds, and the file with the weights of a run. */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import { formatBytes, formatCount } from '../../base/numbers.ts';
import { sizeOf } from '../../model/graph/rule.ts';
import { withWeights } from '../../model/imported/export-onnx.ts';
import { activationBytes, OPERATORS_PAGE, unknownOperator } from '../../model/imported/model.ts';
import type { TrainedRun } from '../../node/files/trained-run.ts';
import { type ImportedFile, openImported } from '../../node/pretrained/imported-file.ts';

/** Parameters, gradient and two moments of AdamW, each 4 bytes. */
const BYTES_PER_PARAMETER = 16;

/** Tokens of an example if the file leaves their number open. */
const CONTEXT = 64;

/** Returns what `model inspect --json` prints. */
export function importedDocument({ graph, names }: ImportedFile) {
  const { input, output, tensors, nodes, opset } = graph;
  const operators: Record<string, number> = {};
  for (const { type } of nodes.toSorted((a, b) => (a.type < b.type ? -1 : 1))) {
    operators[type] = (operators[type] ?? 0) + 1;
  }
  const trained = tensors.filter(({ role }) => role === 'trained');
  const withoutDerivative = unknownOperator(graph) ?? null;
  return {
    opset,
    files: names,
    input: { name: input.name, shape: input.shape },
    output: output.name,
    operators,
    parameters: trained.reduce((sum, { shape }) => sum + sizeOf(shape), 0),
    tensors: tensors.map(({ name, shape, role }) => ({ name, shape, role })),
    /** Of one example; null if an operator has no derivative. */
    activationBytes: withoutDerivative === null ? activationBytes(graph, CONTEXT) : null,
    withoutDerivative,
  };
}

/** Returns the lines that `model inspect` prints. */
export function importedWords(file: ImportedFile): readonly string[] {
  const document = importedDocument(file);
  const { opset, files, input, output, operators, parameters, tensors } = document;
  const { withoutDerivative, activationBytes: activations } = document;
  const shape = input.shape.map((dim, i) => dim ?? (i === 0 ? 'batch' : '?')).join(' x ');
  const memory = formatBytes(BYTES_PER_PARAMETER * parameters);
  const counts = Object.entries(operators).map(([type, count]) => `${count} ${type}`);
  const rows: readonly (readonly [string, string])[] = [
    ['opset', `${opset}`],
    ['files', files.join(', ')],
    ['input', `${input.name}, ${shape}`],
    ['output', output],
    ['parameters', `${formatCount(parameters)}; training keeps ${memory}`],
    ...(activations === null
      ? []
      : [['activations', `${formatBytes(activations)} for each example of a batch`] as const]),
    ['operators', counts.join(', ')],
    [
      'trainable',
      withoutDerivative === null
        ? 'yes: every operator has a derivative'
        : `no: ${withoutDerivative} has no derivative; to add it see ${OPERATORS_PAGE}`,
    ],
    ...tensors.map(
      (tensor) =>
        [tensor.role, `${tensor.name}, ${tensor.shape.join(' x ') || 'a scalar'}`] as const,
    ),
  ];
  return rows.map(([name, value]) => `${name.padEnd(11)} ${value}`);
}

/** Writes the run's ONNX file with its trained weights. Throws a ConfigError if the file is missing or another one. */
export async function writeTrainedOnnx(run: TrainedRun, path: string): Promise<number> {
  const { settings, layout, values } = run;
  const { graph, bytes, beside } = await openImported(settings.base);
  const slots = new Map(layout.slots.map((slot) => [slot.name, slot]));
  for (const { name, shape, role } of graph.tensors) {
    const isKnown = role === 'frozen' || slots.get(name)?.shape.join() === shape.join();
    if (isKnown) continue;
    throw new ConfigError('base/other', `${settings.base} does not fit ${run.path}: ${name}`, {
      hint: 'name the .onnx file that the run was started with: --base FILE.onnx',
    });
  }
  const made = withWeights(
    bytes,
    (name) => {
      const slot = slots.get(name);
      return slot && values.slice(slot.offset, slot.offset + slot.size);
    },
    beside,
  );
  await writeFile(`${path}.part`, made, { flag: 'wx' });
  await rename(`${path}.part`, path);
  return (await readFile(path)).length;
}
