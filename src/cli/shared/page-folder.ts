/** Where the files of the run page are, for the commands that serve it. */
import { fileURLToPath } from 'node:url';

/** Where `npm run build` puts the page, beside the program or beside its sources. */
export const pageFolder = (): string => {
  const modulePath = fileURLToPath(import.meta.url);
  const root = modulePath.endsWith('.ts') ? '../../../dist/page' : '../../../page';
  return fileURLToPath(new URL(root, import.meta.url));
};
