/**
 * Renders docs/protocol.md and the table in kinds/README.md from the declarations. Run `node --import tsx
 * kinds/_render.ts` after changing a kind; a test fails while the pages are stale.
 */
import type { Content } from './_content.ts';
import type { Presence, Tag } from './_tags.ts';
import { kinds } from './index.ts';

/** What a page needs of a declaration; value types do not matter here. */
interface Page {
  readonly kind: number;
  readonly name: string;
  readonly summary: string;
  readonly sent: string;
  readonly tags: Readonly<Record<string, Pick<Tag, 'tag' | 'form' | 'presence' | 'doc'>>>;
  readonly content: Pick<Content, 'says' | 'members'>;
  readonly rules?: readonly { readonly says: string }[];
  readonly notes?: string;
}

const pages: readonly Page[] = Object.values(kinds).map(({ declaration }) => declaration);

const NEEDED: Readonly<Record<Presence, string>> = {
  required: 'yes',
  derived: 'yes',
  optional: 'no',
};

/** The table of kinds/README.md. */
const renderTable = (): string =>
  table(
    ['kind', 'name', 'says', 'sent', 'content'],
    pages.map(({ kind, name, summary, sent, content }) => [
      String(kind),
      `[${name}](${name}.ts)`,
      summary,
      sent,
      content.says,
    ]),
  );

/** A Markdown table with its columns aligned, as the formatter leaves it. */
export function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const rows = [head, ...body].map((row) => row.map((text) => text.replaceAll('|', '\\|')));
  const widths = head.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const [first = '', ...rest] = rows.map(
    (row) => `| ${row.map((text, column) => text.padEnd(widths[column]!)).join(' | ')} |`,
  );
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return [first, rule, ...rest].join('\n');
}

const START = '<!-- table: rendered by _render.ts -->';
const END = '<!-- end of table -->';

/** A README with its table replaced. */
export function renderReadme(readme: string): string {
  const before = readme.slice(0, readme.indexOf(START) + START.length);
  return `${before}\n${renderTable()}\n${readme.slice(readme.indexOf(END))}`;
}

/** The whole of docs/protocol.md. */
export function renderProtocol(): string {
  return `${[
    '# Protocol',
    '',
    'Rendered from `kinds/`. Edit the declarations there, then run `npm run docs`.',
    '',
    'Kinds 33333 to 33335 are addressable (NIP-01): of one kind, author and `d`, relays keep the',
    'newest; of one second, the one with the lowest id. Unrelated programs use them too, so always',
    'filter by `t` and check every tag. They are the wire of the Python reference. Kinds 7810 to',
    '7818 are ours, regular and never replaced. Relays take events of 64 KiB: what is larger',
    'travels as chunks (7811) that go before the event that names it.',
    '',
    'Receivers verify id and signature first, then read the event. Known tags are read strictly:',
    'integers are plain decimals up to 4294967295, tags that are not repeatable appear once with',
    'one value, `d` and `s` equal what the other tags make of them. Unknown tags are ignored; a',
    'tag with an empty item spoils the event. `<name>` in `d` and `s` stands for the value of the',
    'tag `name`. The `worker` tag must be the key that signs. `s` is there for relays, which index',
    'single-letter tags only; peers of other programs may leave it out.',
    ...pages.flatMap(renderPage),
  ].join('\n')}\n`;
}

function renderPage({ kind, name, summary, sent, tags, content, rules, notes }: Page): string[] {
  return [
    '',
    `## ${kind}: ${name}`,
    '',
    `${sentence(summary)} Sent ${sent}.`,
    '',
    table(
      ['tag', 'value', 'needed', 'meaning'],
      Object.values(tags).map(({ tag, form, presence, doc }) => [
        `\`${tag}\``,
        form,
        NEEDED[presence],
        doc,
      ]),
    ),
    '',
    `Content: ${content.says}.`,
    ...(rules ?? []).map(({ says }) => `\nIt must hold that ${says}.`),
    ...(notes === undefined
      ? []
      : [notes.trimEnd().replace('<members>', () => content.members ?? '')]),
  ];
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** The two things this script needs of Node when it is run; without it the module only renders. */
interface Host {
  readonly argv: readonly string[];
  getBuiltinModule(name: string): object | undefined;
}

interface Files {
  readFileSync(path: URL, encoding: 'utf8'): string;
  writeFileSync(path: URL, text: string): void;
}

const { process: host } = globalThis as { readonly process?: Host };
if (host !== undefined && import.meta.url === new URL(`file://${host.argv[1]}`).href) {
  const files = host.getBuiltinModule('node:fs') as Files;
  const readme = new URL('README.md', import.meta.url);
  files.writeFileSync(readme, renderReadme(files.readFileSync(readme, 'utf8')));
  files.writeFileSync(new URL('../docs/protocol.md', import.meta.url), renderProtocol());
}
