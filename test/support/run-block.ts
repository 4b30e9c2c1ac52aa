/** Runs a block of TypeScript from a page or a comment as a module inside the project, where `nostrain` is known by its name. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** `name` is for the file that is there while it runs. */
export async function runBlock(name: string, block: string): Promise<void> {
  const file = join(import.meta.dirname, `${name}.block.ts`);
  await writeFile(file, `${block}\nexport {};\n`);
  try {
    await import(/* @vite-ignore */ file);
  } finally {
    await rm(file);
  }
}
