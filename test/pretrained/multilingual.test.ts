/** Token ids of SmolLM2's tokenizer beside those of Python's tokenizers (test/vectors/make_multilingual.py), and its conversations. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { openCorpus, openLocalModel } from 'nostrain/node/parts';
import { expect, test } from 'vitest';
import type { ChatTurn } from '../../src/model/data/documents.ts';
import { encodePieces } from '../../src/model/data/documents.ts';
import { tinyShakespeare } from '../../src/node/data/corpus.ts';
import { publishedForm } from '../../src/node/data/token-parts.ts';
import { tokenizeCorpus } from '../../src/node/data/tokenize.ts';
import { hashFile } from '../../src/node/files/atomic-file.ts';
import { dataHome } from '../../src/node/files/data-home.ts';
import { createChat } from '../../src/pretrained/chat.ts';
import { describeWith, itWith } from '../support/needs.ts';
import { smolLM2, smolLM2Missing } from '../support/smollm2.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { readVectors } from '../support/vectors.ts';

interface Fixture {
  readonly page: { readonly text: string; readonly ids: readonly number[] };
  readonly talk: {
    readonly messages: readonly ChatTurn[];
    readonly text: string;
    readonly ids: readonly number[];
  };
  readonly shakespeare: { readonly tokens: number; readonly sha256: string };
}

const at = temporaryFolder();
const shakespeare =
  process.env.NOSTRAIN_TINY_SHAKESPEARE ?? join(dataHome(), 'corpora', tinyShakespeare.file);
const textMissing = existsSync(shakespeare)
  ? undefined
  : 'tiny Shakespeare is not on this machine: name it with NOSTRAIN_TINY_SHAKESPEARE';

describeWith(smolLM2Missing)('the tokenizer of SmolLM2', () => {
  const { page, talk, shakespeare: text } = readVectors<Fixture>('multilingual.json');
  const open = async () => {
    const base = await openLocalModel(smolLM2, { context: 64 });
    return { base, form: publishedForm(base, 'smollm2') };
  };

  test('has the ids of a page in many languages', async () => {
    const { base } = await open();
    const { tokens } = base.tokenizer.encode(page.text);
    expect([...tokens]).toEqual(page.ids);
    expect(base.tokenizer.decode(tokens)).toBe(page.text);
  });

  test("has the text and ids of a conversation, of which the assistant's turns count", async () => {
    const { base, form } = await open();
    const chat = createChat(base.chatTemplate!, base.tokenizerFiles.config);
    expect(chat.render(talk.messages)).toBe(talk.text);
    const [pieces] = chat.trainingTexts(talk.messages);
    const { tokens, counted } = encodePieces(pieces!, form);
    expect(tokens).toEqual(talk.ids);
    const learnt = tokens.filter((_, i) => counted[i] === 1);
    expect(base.tokenizer.decode(learnt)).toBe('Am Ende des Flusses. 🌊<|im_end|>雨。<|im_end|>');
  });

  itWith(textMissing)('has the ids of tiny Shakespeare, made in pieces', async () => {
    const { form } = await open();
    const source = await openCorpus({
      ...{ file: shakespeare, cacheDir: at(), allowDownload: false, onNotice: () => {} },
    });
    const file = await tokenizeCorpus(source, form, { folder: at(), onNotice: () => {} });
    expect(file.tokens).toBe(text.tokens);
    expect(await hashFile(file.ids)).toBe(text.sha256);
  });
});
