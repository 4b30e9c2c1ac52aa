/** The form of data of each model, and which data a spec may name for it; a new form is one entry here. */

interface RunData {
  readonly models: readonly string[];
  /** Kinds of `data` in a spec, the default first. */
  readonly kinds: readonly ('corpus' | 'own' | 'made')[];
  /** Settings that are part of the spec's `input`. */
  readonly input: readonly InputName[];
  /** Description of its corpus. */
  readonly corpus: string;
}

/** Settings for how a model reads series or pictures. */
export type InputName = 'horizon' | 'patch' | 'forecastError' | 'scaling' | 'pixels';

/** Returns the unit of a model's losses, in words that follow "losses are". */
export function lossUnitOf(
  { model, forecastError }: { readonly model: string; readonly forecastError?: unknown },
  input: { readonly form: string; readonly forecastError?: unknown } | null = null,
): string {
  const form = formOf({ model });
  if (form !== 'series') return UNITS[form];
  const isQuantile = (input?.forecastError ?? forecastError) === 'quantile';
  return isQuantile
    ? 'quantile errors in standard deviations of the training part'
    : 'squared errors in variances of the training part';
}

const UNITS = {
  tokens: 'nats per token',
  rows: 'squared errors',
  images: 'nats per picture',
} as const;

export const dataForms = {
  tokens: {
    models: ['char-gpt', 'gpt', 'pretrained', 'onnx-text'],
    kinds: ['corpus', 'own'],
    input: [],
    corpus: 'text',
  },
  rows: {
    models: ['linear', 'mlp', 'onnx-rows', 'onnx-classes'],
    kinds: ['made'],
    input: [],
    corpus: 'table',
  },
  series: {
    models: ['forecaster', 'onnx-series'],
    kinds: ['made', 'corpus', 'own'],
    input: ['horizon', 'patch', 'forecastError', 'scaling'],
    corpus: 'CSV with a time column',
  },
  images: {
    models: ['vit', 'onnx-images'],
    kinds: ['made', 'corpus', 'own'],
    input: ['pixels', 'patch'],
    corpus: 'folder of pictures',
  },
} as const satisfies Readonly<Record<string, RunData>>;

/** Models read from an ONNX file, by task and data: pictures or rows of classes, numbers, series, text. */
export const importedModels = [
  'onnx-images',
  'onnx-classes',
  'onnx-rows',
  'onnx-series',
  'onnx-text',
] as const;

export type ImportedModelName = (typeof importedModels)[number];

export const isImported = ({ model }: { readonly model: string }): boolean =>
  importedModels.some((name) => name === model);

export type FormName = keyof typeof dataForms;

const tables: readonly (readonly [FormName, RunData])[] = Object.entries(dataForms) as never;

/** Returns the form of data that a model reads. */
export const formOf = ({ model }: { readonly model: string }): FormName =>
  tables.find(([, { models }]) => models.includes(model))?.[0] ?? 'tokens';

/** Returns the data options of a model. */
export const runDataOf = (settings: { readonly model: string }): RunData => {
  const form: RunData = dataForms[formOf(settings)];
  // the graph of an imported model has the sizes of its input
  return isImported(settings) ? { ...form, input: [] } : form;
};
