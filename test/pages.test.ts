/** Pages for people stay true: links and paths lead somewhere, README stays short, and numbers they quote are those that were measured. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { allPages, livingPages, pagesIn } from './docs/pages.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (file: string) => readFileSync(join(root, file), 'utf8');
/** The names by which links reach the headings of a page, as GitHub makes them. */
const headingsOf = (page: string): readonly string[] =>
  [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-'),
  );

describe('pages', () => {
  it('are all on docs/README.md', () => {
    const index = read('docs/README.md');
    const others = [...pagesIn('docs'), ...pagesIn('docs/reference')].filter(
      (page) => page !== 'docs/README.md' && !index.includes(`](${page.slice('docs/'.length)})`),
    );
    expect(others).toEqual([]);
  });

  it.each(allPages)('%s links to files that exist', (page) => {
    const links = [...read(page).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, link]) => link!);
    const broken = links.filter(
      (link) => !/^[a-z]+:/.test(link) && !existsSync(join(root, dirname(page), link)),
    );
    expect(broken).toEqual([]);
  });

  it.each(allPages)('%s links to headings that exist', (page) => {
    const links = [...read(page).matchAll(/\]\(([^)#:\s]*)#([^)\s]+)\)/g)].map(
      ([, link, heading]) => [link ? join(dirname(page), link) : page, heading!] as const,
    );
    const broken = links.filter(
      ([target, heading]) => target.endsWith('.md') && !headingsOf(target).includes(heading),
    );
    expect(broken).toEqual([]);
  });

  it('docs/benchmarks.md links to each page of results', () => {
    const index = read('docs/benchmarks.md');
    const names = pagesIn('docs/results').map((page) => page.slice('docs/'.length));
    expect(names.filter((name) => !index.includes(`](${name})`))).toEqual([]);
  });

  it.each(livingPages)('%s names source files that exist', (page) => {
    const paths =
      read(page).match(/(?<![\w./-])(?:src|kinds|relay|test|demos)\/[\w./-]*\w(?![\w-]*\*)/g) ?? [];
    expect([...new Set(paths)].filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it('README has at most 500 words, the benchmarks and the changelog 1,500 each', () => {
    const words = (page: string) => read(page).split(/\s+/).filter(Boolean).length;
    expect(words('README.md')).toBeLessThanOrEqual(500);
    expect(words('docs/benchmarks.md')).toBeLessThanOrEqual(1500);
    expect(words('CHANGELOG.md')).toBeLessThanOrEqual(1500);
  });
});

/** The cells of the first row of a page that begins so. */
function row(page: string, begins: string): readonly string[] {
  const line = read(page)
    .split('\n')
    .find((each) => each.startsWith(begins));
  if (line === undefined) throw new Error(`${page} has no row ${begins}`);
  return line.split('|').map((cell) => cell.replaceAll('*', '').trim());
}

const oneLine = (page: string) => read(page).replaceAll(/\s+/g, ' ');
const found = (text: string, pattern: RegExp): number => {
  const [, number] = pattern.exec(text) ?? [];
  if (number === undefined) throw new Error(`nothing like ${pattern}`);
  return Number(number.replaceAll(',', ''));
};

describe('numbers that pages quote', () => {
  const demoPage = 'docs/results/demo.md';
  const payloadPage = 'docs/results/payload-size.md';
  const measured = oneLine(demoPage);
  const long = row(demoPage, '| validation loss |');
  const rounds = row(demoPage, '| loss  |');

  it('README quotes the demo as it was measured', () => {
    const readme = oneLine('README.md');
    const together = Number(rounds.at(-2));
    const alone = found(measured, /One of them alone ends at ([\d.]+) after as many steps/);
    const bytes = found(measured, /in one event of ([\d,]+) B per worker and round/);
    expect(readme).toContain(`${Math.round(bytes / 1000)} kB of events per worker and round`);
    expect(readme).toContain(`at a validation loss of ${together.toFixed(2)};`);
    expect(readme).toContain(`one of them alone reaches ${alone.toFixed(2)} in as many steps`);
    const [, , , , cell] = row(payloadPage, '| one worker alone on its quarter');
    expect(cell!.split(', ')[0]).toBe(alone.toFixed(3));
  });

  it('the long demo wins by what was measured', () => {
    const together = Number(long.at(-2));
    const alone = found(measured, /interleaved blocks, Muon\): ([\d.]+) at its best/);
    expect(measured).toContain(`wins by **${(alone - together).toFixed(2)}**`);
  });

  it('the demo quotes the rounds as they were measured', () => {
    const demo = oneLine('demos/gpt/README.md');
    const lossAt = (round: number) =>
      Number(rounds[row(demoPage, '| round | 1 ').indexOf(`${round}`)]).toFixed(2);
    const kB = Math.round(
      found(measured, /in one event of ([\d,]+) B per worker and round/) / 1000,
    );
    expect(demo).toContain(`validation loss of ${lossAt(1)} after the first`);
    expect(demo).toContain(`of ${lossAt(7)} after the seventh`);
    expect(demo).toContain(`of ${lossAt(20)} after the twentieth`);
    expect(demo).toContain(`one event of ${kB} kB`);
    expect(oneLine('docs/how-a-round-works.md')).toContain(`one event of ${kB} kB`);
  });

  it('the frontier of docs/results/payload-size.md is that of docs/assets/frontier.ndjson', () => {
    const measured: ReadonlyMap<string, number> = new Map(
      read('docs/assets/frontier.ndjson')
        .trim()
        .split('\n')
        .map((line): { label: string; loss: number } => JSON.parse(line))
        .map(({ label, loss }) => [label, loss]),
    );
    const many = { rounds: 20, innerSteps: 25 };
    const few = { rounds: 5, innerSteps: 100 };
    const losses = [few, { ...few, seed: 2 }, many, { ...many, seed: 2 }].map((settings) =>
      measured.get(JSON.stringify(settings))?.toFixed(3),
    );
    const cells = row(payloadPage, '| **the default**').slice(4, 6);
    expect(cells.flatMap((cell) => cell.split(', '))).toEqual(losses);
  });
});
