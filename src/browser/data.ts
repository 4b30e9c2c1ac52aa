/** What a tab trains on: the text that the spec names, from wherever this browser has it, or rows that are made. */
import { ConfigError } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import { madeData } from '../model/data/made.ts';
import { writePlay } from '../model/data/playwright.ts';
import { divideSeries, parseSeriesCsv } from '../model/data/series.ts';
import { divideText } from '../model/data/text.ts';
import { tokenizers } from '../model/data/tokenizer.ts';
import { modelOf } from '../model/from-settings.ts';
import { formOf } from '../run/data-forms.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { Settings } from '../run/settings.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import type { TabStorage } from './storage.ts';

export interface TabTask extends Pick<TrainerSetup, 'model' | 'data'> {
  readonly tokensPerExample: number;
  /** Of text; 0 of rows. */
  readonly bytesPerToken: number;
}

export interface TaskSources {
  readonly storage: TabStorage;
  /** How the names of this worker begin in it. */
  readonly prefix: string;
  /** A text that the person gave. */
  readonly given?: Uint8Array | undefined;
  /** What everybody evaluates on, where the spec names such a text. */
  readonly evaluation?: Uint8Array | undefined;
}

/** Throws `tab/corpus` where the text is not here: the page then asks for it. */
export async function prepareTabTask(
  spec: RunSpec,
  settings: Settings,
  sources: TaskSources,
): Promise<TabTask> {
  if (settings.model === 'pretrained') {
    throw new ConfigError('tab/pretrained', 'a tab does not train published models yet', {
      hint: 'join with the program: nostrain run join naddr1…',
    });
  }
  const model = modelOf(settings, spec);
  const form = formOf(settings);
  if (spec.data.kind === 'made' && form !== 'tokens') {
    const data = madeData(form, settings);
    return { model, data, tokensPerExample: 1, bytesPerToken: 0 };
  }
  if (form === 'images') {
    throw new ConfigError('tab/pictures', 'a tab does not read folders of pictures yet', {
      hint: 'join with the program: nostrain run join naddr1…',
    });
  }
  const text = await textOf(spec, sources);
  const dealt = spec.data.kind === 'corpus' ? spec.data.form : 'interleaved';
  if (form === 'series') {
    const series = parseSeriesCsv(new TextDecoder().decode(text));
    const data = divideSeries(series, { ...settings, form: dealt });
    return { model, data, tokensPerExample: 1, bytesPerToken: 0 };
  }
  const tokenizer = tokenizers[settings.tokens];
  const { tokens } = tokenizer.encode(text);
  const { context, shard } = settings;
  const held = sources.evaluation && tokenizer.encode(sources.evaluation).tokens;
  const parts = divideText(tokens, shard, { form: dealt, context, held });
  return {
    ...{ model, data: { kind: 'tokens', ...parts }, tokensPerExample: context },
    // the built-in tokenizers have one for each byte, as far as they know the character
    bytesPerToken: 1,
  };
}

/** The text: given now or before, the built-in one, or one that the server of the page has. */
async function textOf(spec: RunSpec, { storage, prefix, given }: TaskSources): Promise<Uint8Array> {
  const wanted = spec.data.kind === 'corpus' ? spec.data.sha256 : undefined;
  const name = wanted === undefined ? `${prefix}/text` : `corpus/${wanted}`;
  const isWanted = (bytes: Uint8Array) => wanted === undefined || sha256Hex(bytes) === wanted;
  if (given !== undefined) {
    if (!isWanted(given)) throw noText(spec, 'that is another text than the run trains on');
    await storage.put(name, given);
    return given;
  }
  const kept = await storage.get(name);
  if (kept instanceof Uint8Array && isWanted(kept)) return kept;
  if (wanted === undefined)
    throw noText(spec, 'each worker of this run trains on a text of its own');
  const play = writePlay();
  if (isWanted(play)) return play;
  const served = await fetchText(wanted);
  if (served === undefined) throw noText(spec, 'the text of the run is not here');
  await storage.put(name, served);
  return served;
}

/** Longer texts are for the program. */
const MOST_BYTES = 64 << 20;

/** From the server of this page and no other; undefined where it has none, or other bytes. */
async function fetchText(sha256: string): Promise<Uint8Array | undefined> {
  const answer = await fetch(new URL(`corpus/${sha256}`, import.meta.url)).catch(() => undefined);
  if (!answer?.ok || Number(answer.headers.get('content-length') ?? 0) > MOST_BYTES) {
    return undefined;
  }
  const bytes = new Uint8Array(await answer.arrayBuffer());
  return sha256Hex(bytes) === sha256 ? bytes : undefined;
}

const noText = ({ dataFrom }: RunSpec, message: string): ConfigError =>
  new ConfigError('tab/corpus', message, {
    hint:
      dataFrom === ''
        ? 'choose the file'
        : `choose the file; whoever made the run says that it is at ${dataFrom}`,
  });
