/**
 * Renders docs/protocol.md and the table in kinds/README.md from the declarations. Run `npm run docs` after changing a
 * kind; a test fails while the pages are stale.
 */
import type { Content } from './_content.ts';
import type { Presence, Tag } from './_tags.ts';
import { kinds } from './index.ts';

/** The part of a declaration that a page needs; value types do not matter here. */
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

/** Renders the table of kinds/README.md. */
const renderTable = (): string =>
  table(
    ['kind', 'name', 'summary', 'sent', 'content'],
    pages.map(({ kind, name, summary, sent, content }) => [
      String(kind),
      `[${name}](${name}.ts)`,
      summary,
      sent,
      content.says,
    ]),
  );

/** Returns a Markdown table with aligned columns, as the formatter would print it. */
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

/** Returns the README with its table replaced. */
export function renderReadme(readme: string): string {
  const before = readme.slice(0, readme.indexOf(START) + START.length);
  return `${before}\n${renderTable()}\n${readme.slice(readme.indexOf(END))}`;
}

/** Renders docs/protocol.md. */
export function renderProtocol(): string {
  return `${[
    '# Protocol',
    '',
    'Rendered from `kinds/`. Edit the declarations there, then run `npm run docs`.',
    '',
    'Kinds 33333 to 33335 are addressable (NIP-01): of one kind, author and `d`, relays keep the',
    'newest event, and at the same second the one with the lowest id. Unrelated programs use these',
    'kinds too, so always filter by `t` and check every tag. The Python reference sends them.',
    'Kinds 7810 to 7820 are our own and regular: nothing replaces them. Kinds 37810 to 37813 are',
    'our own and addressable. Relays accept events of 64 KiB; larger data travels as chunks',
    '(7811), which are sent before the event that names them.',
    '',
    'Receivers verify id and signature first, then parse the event. Known tags are parsed',
    'strictly: integers are plain decimals up to 4294967295, tags that are not repeatable appear',
    'once with one value, and `d` and `s` equal their templates filled from the other tags.',
    'Unknown tags are ignored; an event with an empty item in any tag is refused. `<name>` in `d`',
    'and `s` stands for the value of the tag `name`. The `worker` tag must be the signing key.',
    'Relays index single-letter tags only, hence `s`; events of other programs may lack it.',
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
    ...(rules?.length ? [`\nRules:\n\n${rules.map(({ says }) => `- ${says}`).join('\n')}`] : []),
    ...(notes === undefined
      ? []
      : [notes.trimEnd().replace('<members>', () => content.members ?? '')]),
  ];
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** What the script needs of Node.js; without it the module only exports the renderers. */
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
