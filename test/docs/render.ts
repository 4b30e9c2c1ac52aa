/** Writes the generated pages of docs/reference/: `npm run docs`. A test fails while one of them is stale. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { renderCommands } from './commands.ts';
import { renderJsonDocuments } from './json-documents.ts';
import { renderEnvironment, renderExitCodes, renderFiles } from './machine.ts';

const MADE = '<!-- made by `npm run docs`; edit the code or test/docs instead -->';

/** Of each page under docs/reference/, how it is made. */
export const pages: Readonly<Record<string, () => string | Promise<string>>> = {
  'commands.md': renderCommands,
  'environment.md': renderEnvironment,
  'exit-codes.md': renderExitCodes,
  'files-and-folders.md': renderFiles,
  'json-documents.md': renderJsonDocuments,
};

/** A page as its file has it. */
export const render = async (name: string): Promise<string> =>
  `${MADE}\n\n${await pages[name]!()}\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(import.meta.dirname, '../../docs/reference');
  mkdirSync(folder, { recursive: true });
  for (const name of Object.keys(pages)) writeFileSync(join(folder, name), await render(name));
}
