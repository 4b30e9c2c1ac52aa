/**
 * The part of a run spec that describes a model from an ONNX file: the sizes of its data, and its parameters. Its graph
 * and its weights are files of the run, whose hashes the spec has too.
 */
import { isObject, isWithin, listOf, type Untyped } from '../../base/shape.ts';
import type { FormName } from '../data-forms.ts';
import { type Group, reading, row, type Values, whole } from '../field.ts';
import { memberOf, objectOf, readFields, refuseUnknown, wrong } from './spec-readers.ts';

/** A trained tensor or running statistic, in the order of the parameters. */
export type ImportedParameter = Values<typeof tensorFields>;

type ImportedData = {
  readonly [K in FormName]: { readonly kind: K } & Values<(typeof dataFields)[K]>;
}[FormName];

export interface ImportedShape {
  readonly architecture: 'onnx';
  readonly data: ImportedData;
  readonly tensors: readonly ImportedParameter[];
}

/** Files of a run that trains an imported model: the canonical graph, and the elements of its tensors. */
export const importedFiles = { graph: 'graph.json', weights: 'weights.bin' } as const;

/** Maximum size of one dimension, and of all tensors together. */
const MOST = 2 ** 31;
const MOST_TENSORS = 20_000;
const MOST_RANK = 8;

const size = (help: string) => row(help, whole(1, MOST));

/** Sizes of the data that an imported model reads, by form. */
const dataFields = {
  tokens: { vocabulary: size('kinds of tokens'), context: size('tokens of a window') },
  rows: { features: size('numbers of a row') },
  series: {
    channels: size('numbers of a step'),
    context: size('steps of a window'),
    horizon: size('steps to predict'),
  },
  images: {
    pixels: size('pixels of a side'),
    channels: size('numbers of a pixel'),
    classes: size('classes'),
  },
} as const satisfies Readonly<Record<FormName, Group>>;

const TENSORS = `a list of 1 to ${MOST_TENSORS} tensors, each with a name of its own`;

const tensorFields = {
  name: row(
    'name in the file',
    reading('1 to 200 printable characters', (value) =>
      typeof value === 'string' && isTensorName(value) ? value : undefined,
    ),
  ),
  shape: row(
    'sizes of its dimensions',
    reading(`a list of at most ${MOST_RANK} positive integers`, (value) =>
      isShape(value) ? value : undefined,
    ),
  ),
} as const satisfies Group;

/** Reports whether a text can name a tensor. */
export const isTensorName = (name: string): boolean =>
  /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,200}$/u.test(name) && name.isWellFormed();

const isShape = listOf(isWithin(1, MOST), MOST_RANK);

const AT = 'start.model.';

/** Reads the model of a spec that starts from an ONNX file. Throws a ConfigError with the path of the invalid value. */
export function readImportedShape(model: Untyped): ImportedShape {
  refuseUnknown(model, ['architecture', 'data', 'tensors'], AT);
  const { kind, ...numbers } = objectOf(model, 'data', ['kind'], AT);
  const forms = Object.keys(dataFields) as FormName[];
  const form = forms.find((each) => each === kind);
  if (form === undefined) throw wrong(`${AT}data.kind`, kind, forms.join(', '));
  refuseUnknown(numbers, Object.keys(dataFields[form]), `${AT}data.`);
  const tensors = memberOf(model, 'tensors', AT, TENSORS);
  if (!listOf(isObject, MOST_TENSORS, 1)(tensors)) throw wrong(`${AT}tensors`, tensors, TENSORS);
  const read = tensors.map((tensor, i) => {
    refuseUnknown(tensor, Object.keys(tensorFields), `${AT}tensors.${i}.`);
    return readFields(tensor, tensorFields, `${AT}tensors.${i}.`);
  });
  const total = read.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  const isUnique = new Set(read.map(({ name }) => name)).size === read.length;
  if (total > MOST || !isUnique) throw wrong(`${AT}tensors`, tensors, TENSORS);
  const data = { kind: form, ...readFields(numbers, dataFields[form], `${AT}data.`) };
  return { architecture: 'onnx', data: data as ImportedData, tensors: read };
}

/** Returns the data that the imported model of a run reads; undefined for other models. */
export const importedDataOf = (
  start: { readonly model: ImportedShape | { readonly architecture: string } } | null | undefined,
): ImportedData | undefined =>
  start?.model.architecture === 'onnx' ? (start.model as ImportedShape).data : undefined;
