/** Series on this machine: the CSV that is named, or one that is made up, and what a worker trains on of it. */
import { concatBytes } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { madeSeries } from '../../../model/data/made-series.ts';
import { divideSeries, parseSeriesCsv, type Series } from '../../../model/data/series.ts';
import { inputOf, patchModel } from '../../../model/from-settings.ts';
import type { Settings } from '../../../run/settings.ts';
import type { OpenCorpus } from '../corpus.ts';
import type { Sources, Task } from '../task.ts';
import { openNamedCorpus } from './text.ts';

/** More than so many bytes are no series of ours: it is in memory as a whole. */
const MOST_BYTES = 2 ** 28;

/** A series, and the file it is in; none is made up of. */
export interface OpenSeries {
  readonly series: Series;
  /** What everybody evaluates on, where each has their own. */
  readonly held?: Series;
  readonly file?: OpenCorpus;
}

/** The CSV that is named, held against a run where it names one; else what the run evaluates on, or the made-up series of a seed. */
export async function openSeries(
  { seed }: Pick<Settings, 'seed'>,
  sources: Pick<Sources, 'corpus' | 'fixed' | 'onNotice' | 'signal'>,
): Promise<OpenSeries> {
  const { sha256, evaluation } = sources.fixed ?? {};
  const held = evaluation && parseSeriesCsv(new TextDecoder().decode(evaluation));
  if (sources.corpus === undefined && sha256 === undefined) {
    return held ? { series: held, held } : { series: madeSeries(seed) };
  }
  // what is too short is said in steps
  const file = await openNamedCorpus({ ...sources, leastBytes: 0 });
  if (file.size > MOST_BYTES) {
    throw new ConfigError(
      'data/series',
      `${file.name} has ${file.size} bytes, more than ${MOST_BYTES}`,
      {
        hint: 'take longer steps, or fewer columns',
      },
    );
  }
  const pieces: Uint8Array[] = [];
  for await (const piece of file.read()) pieces.push(piece);
  const series = parseSeriesCsv(new TextDecoder().decode(concatBytes(...pieces)));
  return { series, file, ...(held && { held }) };
}

export async function prepareSeries(
  settings: Settings,
  sources: Sources,
): Promise<Omit<Task, 'optimizer'>> {
  const { series, held } = await openSeries(settings, sources);
  const form = sources.fixed?.form ?? 'interleaved';
  const { channels } = series;
  return {
    name: settings.model,
    model: patchModel(settings, inputOf(settings, { channels })!),
    data: divideSeries(series, { ...settings, form, held }),
    tokensPerExample: 1,
  };
}
