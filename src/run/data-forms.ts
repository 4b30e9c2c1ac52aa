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
    models: ['char-gpt', 'gpt', 'pretrained'],
    kinds: ['corpus', 'own'],
    input: [],
    corpus: 'text',
  },
  rows: { models: ['linear', 'mlp'], kinds: ['made'], input: [], corpus: 'table' },
  series: {
    models: ['forecaster'],
    kinds: ['made', 'corpus', 'own'],
    input: ['horizon', 'patch', 'forecastError', 'scaling'],
    corpus: 'CSV with a time column',
  },
  images: {
    models: ['vit'],
    kinds: ['made', 'corpus', 'own'],
    input: ['pixels', 'patch'],
    corpus: 'folder of pictures',
  },
} as const satisfies Readonly<Record<string, RunData>>;

export type FormName = keyof typeof dataForms;

const tables: readonly (readonly [FormName, RunData])[] = Object.entries(dataForms) as never;

/** Returns the form of data that a model reads. */
export const formOf = ({ model }: { readonly model: string }): FormName =>
  tables.find(([, { models }]) => models.includes(model))?.[0] ?? 'tokens';

/** Returns the data options of a model. */
export const runDataOf = (settings: { readonly model: string }): RunData =>
  dataForms[formOf(settings)];
