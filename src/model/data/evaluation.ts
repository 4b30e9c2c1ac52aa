/**
 * Checks the evaluation slice (a text, a CSV, or packed pictures) of a run whose workers have their own data: reads the
 * sizes of its series or pictures, and compares them with those of the model.
 */
import { ConfigError } from '../../base/errors.ts';
import { formOf } from '../../run/data-forms.ts';
import type { SpecInput } from '../../run/input.ts';
import type { DataForm } from '../architectures/architecture.ts';
import { unpackPictures } from './pictures.ts';
import { parseSeriesCsv, scaleOf } from './series.ts';

export interface SliceSizes {
  readonly channels: number;
  readonly classes?: number;
  readonly pixels?: number;
}

/**
 * Returns the sizes that the model must have; undefined for a text. Throws a ConfigError if the bytes have another form
 * or are too few.
 */
export function sizesOfSlice(
  slice: Uint8Array,
  training: { readonly model: string; readonly context: number; readonly horizon: number },
): SliceSizes | undefined {
  const form = formOf(training);
  const { context } = training;
  if (form === 'series') {
    const series = parseSeriesCsv(new TextDecoder().decode(slice));
    scaleOf(series, training); // throws if the series is too short
    return { channels: series.channels };
  }
  if (form === 'images') {
    const { channels, classes, pixels } = unpackPictures(slice);
    return { channels, classes: classes.length, pixels };
  }
  if (slice.length > context) return undefined;
  throw new ConfigError(
    'spec/inconsistent',
    `the evaluation slice has ${slice.length} bytes, a context of ${context} needs more`,
    { hint: 'name a longer text with --evaluation FILE' },
  );
}

/** Throws a ConfigError if the evaluation slice and the model differ in size. */
export function assertSliceSizes(sizes: SliceSizes, input: SpecInput | DataForm | null): void {
  const wanted: Readonly<Record<string, unknown>> = { ...input };
  const strange = Object.entries(sizes).find(([name, size]) => size !== wanted[name]);
  if (strange === undefined) return;
  const [name, size] = strange;
  throw new ConfigError(
    'spec/inconsistent',
    `the evaluation slice has ${size} ${name}, the model ${wanted[name]}`,
    {
      hint: 'create the run with `nostrain run create --evaluation`, which sizes the model for it',
    },
  );
}
