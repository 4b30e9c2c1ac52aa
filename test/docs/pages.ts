/** The pages of the documentation, by their paths from the root of the repository. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

export const pagesIn = (folder: string): readonly string[] =>
  readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => join(folder, entry.name));

/** Pages that say how things are. */
export const livingPages: readonly string[] = [
  ...['README.md', 'CONTRIBUTING.md', 'kinds/README.md'],
  ...['demos/gpt/README.md', 'demos/linear/README.md', 'demos/own-model/README.md'],
  ...pagesIn('docs'),
];

/** Living pages, and those that are generated or say how things were: decisions and results. */
export const allPages: readonly string[] = [
  ...['docs/decisions', 'docs/reference', 'docs/results'].flatMap(pagesIn),
  ...livingPages,
];
