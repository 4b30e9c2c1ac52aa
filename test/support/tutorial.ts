/** The programs of docs/tutorial.md, each with what the page says it prints. */
import { readFileSync } from 'node:fs';

export const tutorial = readFileSync(new URL('../../docs/tutorial.md', import.meta.url), 'utf8');

const BLOCK = /^```ts\n(.*?)^```\n+```text\n(.*?)^```$/gms;

export const tutorialPrograms = [...tutorial.matchAll(BLOCK)].map(([, code, output], i) => ({
  ...{ i: i + 1, code: code!, output: output! },
}));
