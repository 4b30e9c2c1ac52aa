/**
 * The section `input` of a run spec: how a model reads series or pictures. Runs of other models have no such section.
 */
import type { Untyped } from '../base/shape.ts';
import { type Group, row, type Values, whole } from './field.ts';
import { fields } from './options.ts';

import { memberOf, objectOf, readFields, refuseUnknown, wrong } from './spec/spec-readers.ts';

/** Maximum steps of a window or patch: anyone may publish a spec, and readers must be able to lay out its model. */
const MOST_STEPS = 65_536;

const channels = (most: number) => row('numbers of each step or pixel', whole(1, most));

const inputs = {
  series: {
    channels: channels(1024),
    horizon: row('steps that are forecast', whole(1, MOST_STEPS)),
    patch: row('steps of a patch', whole(1, MOST_STEPS)),
    forecastError: fields.forecastError,
    scaling: fields.scaling,
  },
  images: {
    channels: channels(3),
    classes: row('classes of the pictures', whole(2, 10_000)),
    pixels: row('pixels of a side', whole(1, 1024)),
    patch: row('pixels of the side of a patch', whole(1, 1024)),
  },
} as const satisfies Readonly<Record<string, Group>>;

/** The values of the section. */
export type SpecInput = {
  readonly [K in keyof typeof inputs]: { readonly form: K } & Values<(typeof inputs)[K]>;
}[keyof typeof inputs];

/** The fields of each form, for the page on specs. */
export const inputFields: Readonly<Record<SpecInput['form'], Group>> = inputs;

/** Reads the section. Throws a ConfigError with the path of the invalid value. */
export function readInput(spec: Untyped): SpecInput {
  const accepted = 'one of series, images';
  const section = objectOf(spec, 'input', ['form']);
  const form = memberOf(section, 'form', 'input.', accepted);
  if (form !== 'series' && form !== 'images') throw wrong('input.form', form, accepted);
  refuseUnknown(section, ['form', ...Object.keys(inputs[form])], 'input.');
  return { form, ...readFields<Group>(section, inputs[form], 'input.') } as SpecInput;
}

/** Returns the settings in the section, which all workers of the run share. */
export function inputSettings(input: SpecInput | null) {
  if (input === null) return {};
  if (input.form === 'images') return { pixels: input.pixels, patch: input.patch };
  const { horizon, patch, forecastError, scaling } = input;
  return { horizon, patch, forecastError, scaling };
}
