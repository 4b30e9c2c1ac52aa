/** Locates the files of the run page, for the commands that serve it. */
import { fileURLToPath } from 'node:url';

/** Returns the folder where `npm run build` puts the page, next to the program or its sources. */
export const pageFolder = (): string => {
  const modulePath = fileURLToPath(import.meta.url);
  const root = modulePath.endsWith('.ts') ? '../../../dist/page' : '../../../page';
  return fileURLToPath(new URL(root, import.meta.url));
};
