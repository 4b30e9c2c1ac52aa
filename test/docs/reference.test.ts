/** The generated pages of docs/reference/ are those that the code makes; what they say of files and variables is so. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { takeLock } from 'nostrain/node/parts';
import { describe, expect, it } from 'vitest';
import { dataHome } from '../../src/node/files/data-home.ts';
import { Interrupted } from '../../src/terminal/interrupt.ts';
import { exitCodes } from '../../src/terminal/output.ts';
import { keepRun } from '../support/local-runs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { eventExamples } from './event-examples.ts';
import { type Document, readDocuments, strayExamples, valueAt } from './json-documents.ts';
import { environment, runFiles } from './machine.ts';
import { pages, render } from './render.ts';

const file = temporaryFolder();
const root = join(import.meta.dirname, '../..');
const folder = join(root, 'docs/reference');

describe('N-22: docs/reference', () => {
  it('has the pages that are made, and no others', () => {
    expect(readdirSync(folder).sort()).toEqual(Object.keys(pages).sort());
  });

  it.each(Object.keys(pages))(
    '%s is as `npm run docs` makes it',
    { timeout: 120_000 },
    async (name) => {
      expect(readFileSync(join(folder, name), 'utf8')).toBe(await render(name));
    },
  );
});

it('a worker leaves no file in its folder that the page does not name', async () => {
  const dir = file('winter');
  await keepRun(dir, { done: 1, rounds: 2 });
  const lock = await takeLock(dir);
  await writeFile(join(dir, 'votes.json'), '');
  await mkdir(join(dir, 'past'));
  const left = readdirSync(dir, { withFileTypes: true }).map((each) =>
    each.isDirectory() ? `${each.name}/` : each.name,
  );
  await lock.release();
  expect(left.filter((name) => !Object.hasOwn(runFiles, name))).toEqual([]);
  expect(Object.keys(runFiles).filter((name) => !left.includes(name))).toEqual([
    'log.1.ndjson', // of a long run
    'base.json',
    'run.json',
    'evaluation.txt',
  ]);
});

describe('environment variables', () => {
  it('are all on the page, and no others', () => {
    const read = ['src', 'relay', 'kinds'].flatMap((room) =>
      readdirSync(join(root, room), { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts'))
        .flatMap((file) => [
          ...readFileSync(join(root, room, file), 'utf8').matchAll(
            /\benv\.([A-Z][A-Z_]+)|\benv\[/g,
          ),
        ])
        .map(([, name]) => name),
    );
    expect([...new Set(read)].sort()).toEqual(Object.keys(environment).sort());
  });

  it('name the data folder in the order that the page says', () => {
    const all = { NOSTRAIN_HOME: '/a', XDG_DATA_HOME: '/b' };
    expect(dataHome(all)).toBe('/a');
    expect(dataHome({ ...all, NOSTRAIN_HOME: '' })).toBe(join('/b', 'nostrain'));
  });
});

it('a signal ends the program with the codes on the page', () => {
  expect(new Interrupted('SIGINT').exitCode).toBe(exitCodes.interrupted.code);
  expect(new Interrupted('SIGTERM').exitCode).toBe(exitCodes.terminated.code);
});

describe('JSON documents', () => {
  const { documents, lines } = readDocuments();
  const withExample = [...documents, ...lines].filter(({ example }) => example !== undefined);

  it('have an example of every line', () => {
    expect(lines.filter(({ example }) => example === undefined)).toEqual([]);
    expect(new Set(eventExamples.map(({ type }) => type)).size).toBe(lines.length);
    expect(strayExamples()).toEqual([]);
  });

  it.each(withExample.map((document) => [document.title, document] as const))(
    'the example of %s has the members of its type',
    (_, document) => {
      expect(unknownIn(document), 'members that the type does not have').toEqual([]);
      expect(missingIn(document), 'members that it must have').toEqual([]);
    },
  );
});

function unknownIn({ rows, example }: Document): readonly string[] {
  const known = new Set(rows.map(({ path }) => path));
  // whatever is below JSON of any form, and names that are chosen freely
  const free = rows.filter(({ type, path }) => type === 'JSON' || path.endsWith('.*'));
  const under = free.map(({ path }) => path.replace(/\*$/, ''));
  return pathsOf(example, '').filter(
    (path) => !known.has(path) && !under.some((start) => path.startsWith(start)),
  );
}

function missingIn({ rows, example }: Document): readonly string[] {
  return rows
    .filter(({ path, isOptional }) => !isOptional && !path.includes('*'))
    .filter(({ path }) => {
      const parent = valueAt(example, parentOf(path));
      const isHere = typeof parent === 'object' && parent !== null && !Array.isArray(parent);
      return isHere && valueAt(example, path) === undefined;
    })
    .map(({ path }) => path);
}

const parentOf = (path: string): string => path.replace(/\.?[^.[\]]+$/, '');

function pathsOf(value: unknown, at: string): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((each) => pathsOf(each, `${at}[]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, held]) => {
    const path = at === '' ? name : `${at}.${name}`;
    return [path, ...pathsOf(held, path)];
  });
}
