/** The documentation site: VitePress over a copy of the pages, with the groups of docs/README.md in its sidebar. */
import { readFileSync } from 'node:fs';
import { withMermaid } from 'vitepress-plugin-mermaid';

const read = (page) => readFileSync(new URL(`../pages/docs/${page}`, import.meta.url), 'utf8');

/** Returns a group of the sidebar for each heading of the list of pages; links with the titles of their pages. */
function sidebar() {
  const [, ...groups] = read('index.md').split(/^## /m);
  return groups.map((group) => {
    const pages = [...group.matchAll(/\]\(([^)#]+)\.md\)/g)].map(([, page]) => page);
    const items = [...new Set(pages)].map((page) => ({
      text: /^# (.*)$/m.exec(read(`${page}.md`))[1],
      link: new URL(page, 'https://site/docs/').pathname.replace(/index$/, ''),
    }));
    return { text: group.split('\n')[0], items, collapsed: true };
  });
}

/** Labels of diagrams are not cut off, commands fit the width of the text, and tables fit a phone. */
const STYLE = `
  .mermaid { overflow-x: auto; line-height: 1.5 }
  .mermaid foreignObject { overflow: visible }
  .VPDoc.has-aside .content-container.content-container { max-width: 784px }
  .vp-doc td { vertical-align: top }
  @media (max-width: 640px) { .vp-doc th, .vp-doc td { padding: 4px 8px; font-size: 13px } }
`;

export default withMermaid({
  title: 'nostrain',
  description: 'Several people train one model together, without a server.',
  srcDir: 'pages',
  outDir: 'html',
  cacheDir: 'cache',
  head: [['style', {}, STYLE]],
  // diagrams keep the size of their text, and scroll on a phone
  mermaid: { flowchart: { useMaxWidth: false }, sequence: { useMaxWidth: false } },
  // pages are plain Markdown: an angle bracket is a bracket
  markdown: { html: false },
  themeConfig: {
    nav: [
      { text: 'Train with friends', link: '/docs/with-friends' },
      { text: 'Tutorial', link: '/docs/tutorial' },
      { text: 'Commands', link: '/docs/reference/commands' },
      { text: 'Library', link: '/api/index.html', target: '_self' },
      { text: 'All pages', link: '/docs/' },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    search: { provider: 'local' },
  },
});
