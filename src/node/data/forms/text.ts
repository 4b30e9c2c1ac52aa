/** Texts on this machine: the corpus that a person or a run names, kept and fetched as all corpora are, as tokens. */
import { join } from 'node:path';
import type { AnyModel } from '../../../model/architectures/table.ts';
import { tokenizers } from '../../../model/data/tokenizer.ts';
import { gptSpec } from '../../../model/from-settings.ts';
import type { Settings } from '../../../run/settings.ts';
import { dataHome } from '../../files/data-home.ts';
import { openBase } from '../../pretrained/base-model.ts';
import { type OpenCorpus, openCorpus } from '../corpus.ts';
import type { Sources, Task } from '../task.ts';
import { builtInForm, prepareTokens, publishedForm } from '../tokens/prepare.ts';
import type { CorpusForm } from '../tokens/tokenize.ts';

type NamedSources = Pick<Sources, 'corpus' | 'fixed' | 'onNotice' | 'signal'> & {
  /** As a text needs, if nobody says. */
  readonly leastBytes?: number;
};

/** The file or address named, or what the run has; else the usual text. */
export const openNamedCorpus = ({
  corpus: file,
  fixed = {},
  onNotice,
  signal,
  leastBytes,
}: NamedSources): Promise<OpenCorpus> =>
  openCorpus({
    file,
    onNotice,
    signal,
    leastBytes,
    wanted: fixed.sha256,
    from: fixed.from,
    cacheDir: join(dataHome(), 'corpora'),
    allowDownload: true,
  });

interface TextModel {
  readonly model: AnyModel;
  readonly form: CorpusForm;
}

export async function prepareText(
  settings: Settings,
  sources: Sources,
): Promise<Omit<Task, 'optimizer'>> {
  if (settings.model === 'pretrained') {
    const base = sources.base ?? (await (sources.openBase ?? openBase)(settings, sources));
    const { model, frozen, pretrained, tokenizerSha256 } = base;
    const form = publishedForm(pretrained, tokenizerSha256);
    return { ...(await read(settings, sources, { model, form })), base, frozen };
  }
  const tokenizer = tokenizers[settings.tokens];
  const model = gptSpec(settings, tokenizer.vocabulary);
  return read(settings, sources, { model, form: builtInForm(tokenizer) });
}

async function read(
  settings: Settings,
  sources: Sources,
  { model, form }: TextModel,
): Promise<Omit<Task, 'optimizer'>> {
  const { onNotice, signal, fixed = {} } = sources;
  const corpus = await openNamedCorpus(sources);
  const { context, shard } = settings;
  const { data, bytesPerToken } = await prepareTokens(corpus, form, {
    context,
    shard,
    onNotice,
    signal,
    folder: join(dataHome(), 'corpora'),
    form: fixed.form ?? 'interleaved',
    evaluation: fixed.evaluation,
  });
  return {
    name: settings.model,
    model,
    data,
    tokensPerExample: context,
    text: { tokenizer: form.tokenizer, bytesPerToken },
  };
}
