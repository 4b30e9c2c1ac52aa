/** What models train on where nobody names data: made up by the run's seed, alike on every machine. */

import type { FormName } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import type { TrainerData } from '../forms/table.ts';
import { madeSeries } from './made-series.ts';
import { madeShapes } from './made-shapes.ts';
import { dividePictures } from './pictures.ts';
import { asRows, madeRows } from './regression.ts';
import { divideSeries } from './series.ts';

const made: Readonly<Record<Exclude<FormName, 'tokens'>, (settings: Settings) => TrainerData>> = {
  rows: (settings) => {
    const { own, validation } = madeRows(settings);
    return {
      kind: 'regression',
      features: own.features,
      ...asRows(own),
      validation: asRows(validation),
    };
  },
  series: (settings) =>
    divideSeries(madeSeries(settings.seed), { ...settings, form: 'interleaved' }),
  images: ({ seed, pixels, shard }) => dividePictures(madeShapes(seed, pixels), shard),
};

/** A worker's part of it, and what all evaluate on. Of texts there is another page: the built-in play. */
export const madeData = (form: Exclude<FormName, 'tokens'>, settings: Settings): TrainerData =>
  made[form](settings);
