/** The forms of data by name. A new one is a file beside this one, its sizes in `DataForm`, and a line here. */
import type { DataForm } from '../architectures/architecture.ts';
import { type FormRules, type HeldData, type Holder, unfit } from './form.ts';
import { type ImageData, images } from './images.ts';
import { type RowData, rows } from './rows.ts';
import { type SeriesData, series } from './series.ts';
import { type TokenData, tokens } from './tokens.ts';

type Kind = DataForm['kind'];
type FormOf = { readonly [K in Kind]: Extract<DataForm, { readonly kind: K }> };

/** What a worker has of each. */
interface DataOf {
  readonly tokens: TokenData;
  readonly rows: RowData;
  readonly series: SeriesData;
  readonly images: ImageData;
}

const forms: { readonly [K in Kind]: (form: FormOf[K]) => FormRules<DataOf[K]> } = {
  tokens,
  rows,
  series,
  images,
};

/** A worker's data, of any form. */
export type TrainerData = DataOf[Kind];

/** What a form of data brings. */
export function rulesOf<K extends Kind>(form: FormOf[K] & { readonly kind: K }) {
  return forms[form.kind](form);
}

/** The data of a worker, checked. Throws a `ConfigError` (`training/data`) where it does not fit the model or itself. */
export function holdData(form: DataForm, data: TrainerData, holder: Holder): HeldData {
  const rules: Omit<FormRules<never>, 'anything'> = rulesOf(form);
  if (data.kind === rules.data) return rules.hold(data as never, holder);
  throw unfit(`a ${holder.model} model trains on ${rules.says}, not on ${kindWords[data.kind]}`);
}

const kindWords: Readonly<Record<TrainerData['kind'], string>> = {
  tokens: 'tokens',
  regression: 'feature rows',
  series: 'a series',
  images: 'pictures',
};
