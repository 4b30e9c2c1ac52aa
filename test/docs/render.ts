/** Writes docs/reference/ and docs/run-spec.md: `npm run docs`. A test fails while one of them is stale. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Field, fields, type Group } from 'nostrain/run';
import { methods } from '../../src/cli/commands/serve/methods.ts';
import { requirements } from '../../src/run/settings.ts';
import { defaultWords, specOptions } from '../../src/terminal/options.ts';
import { renderPage } from '../support/run-spec-page.ts';
import { renderCommands } from './commands.ts';
import { renderJsonDocuments } from './json-documents.ts';
import { renderEnvironment, renderExitCodes, renderFiles } from './machine.ts';
import { code, table } from './markdown.ts';

const MADE = '<!-- made by `npm run docs`; edit the code or test/docs instead -->';

/** The methods of `nostrain serve`: the same table that the server answers from. */
const renderApi = (): string =>
  [
    '# Methods of the API',
    '[Call nostrain from other programs](../api.md) says how. Parameters marked `?` are optional.',
    ...methods.map(({ name, verb, summary, params, result, errors }) =>
      [
        `## ${name}`,
        `${code(`nostrain train ${verb}`)}: ${summary}.`,
        table(
          ['parameter', 'what it is', 'form'],
          Object.entries(params).map(([param, { help, accepted, isOptional }]) => [
            code(isOptional ? `${param}?` : param),
            help,
            accepted,
          ]),
        ),
        `Result: ${Object.entries(result)
          .map(([member, type]) => `${code(member)} (${type})`)
          .join(', ')}.`,
        ...(errors.length > 0 ? [`Errors: ${errors.map(code).join(', ')}.`] : []),
      ].join('\n\n'),
    ),
  ].join('\n\n');

const HEAD = ['option', 'accepted', 'default', 'what it says', 'goes with'];

const optionRow = (name: string, each: Field<unknown>): readonly string[] => {
  const { flag, accepted, help, needs } = each;
  const needed =
    needs === undefined ? '' : requirements[needs as keyof typeof requirements].goesWith;
  const isOfWords = (each.words ?? []).length > 0;
  const meaning = isOfWords ? help.replace(/ \([^()]*\)$/, '') : help;
  return [code(flag ?? name), accepted, defaultWords(name, each), meaning, needed];
};

/** Every option with how it is typed: the same rows that the program reads them by. */
const renderSettings = (): string =>
  [
    '# Settings',
    'An option with a flag is typed as it stands here. Every other one is `--set name=value`, as often as needed, in `nostrain run-training`, `plan`, `run create` and `run join`; `nostrain help settings` prints this list. A settings file (`--settings FILE`) holds the same names: `{"model": "char-gpt", "owners": 2}`.',
    '## Settings of a run and its workers',
    table(
      HEAD,
      Object.entries<Group[string]>(fields).map(([name, each]) => optionRow(name, each)),
    ),
    '## Fields of a run spec',
    'For `nostrain run create`; [the run spec](../run-spec.md) says more.',
    table(
      HEAD,
      specOptions
        .filter(({ name, row }) => fields[name as never] !== row)
        .map(({ name, row }) => optionRow(name, row)),
    ),
  ].join('\n\n');

/** Of each page under docs/reference/, how it is made. */
export const pages: Readonly<Record<string, () => string | Promise<string>>> = {
  'api.md': renderApi,
  'commands.md': renderCommands,
  'environment.md': renderEnvironment,
  'exit-codes.md': renderExitCodes,
  'files-and-folders.md': renderFiles,
  'json-documents.md': renderJsonDocuments,
  'settings.md': renderSettings,
};

/** A page as its file has it. */
export const render = async (name: string): Promise<string> =>
  `${MADE}\n\n${await pages[name]!()}\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(import.meta.dirname, '../../docs/reference');
  mkdirSync(folder, { recursive: true });
  for (const name of Object.keys(pages)) writeFileSync(join(folder, name), await render(name));
  writeFileSync(join(folder, '../run-spec.md'), renderPage());
}
