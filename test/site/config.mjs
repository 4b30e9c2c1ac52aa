/** The documentation site: VitePress over a copy of the pages, with the groups of docs/README.md in its sidebar. */
import { readFileSync } from 'node:fs';
import { withMermaid } from 'vitepress-plugin-mermaid';

/** Returns a group of the sidebar for each heading of the list of pages; links with their text. */
function sidebar() {
  const index = readFileSync(new URL('../pages/docs/index.md', import.meta.url), 'utf8');
  return index
    .split(/^## /m)
    .slice(1)
    .map((group) => {
      const [text] = group.split('\n');
      const links = [...group.matchAll(/\[([^\]]+)\]\(([^)#]+)\.md\)/g)];
      const items = links.map(([, name, to]) => {
        const { pathname } = new URL(to, 'https://site/docs/');
        return { text: name.replace(/\s+/g, ' '), link: pathname.replace(/index$/, '') };
      });
      return { text, items, collapsed: true };
    });
}

export default withMermaid({
  title: 'nostrain',
  description: 'Several people train one model together, without a server.',
  srcDir: 'pages',
  outDir: 'html',
  cacheDir: 'cache',
  lastUpdated: false,
  // pages are plain Markdown: an angle bracket is a bracket
  markdown: { html: false },
  themeConfig: {
    nav: [
      { text: 'Train with friends', link: '/docs/with-friends' },
      { text: 'Tutorial', link: '/docs/tutorial' },
      { text: 'Commands', link: '/docs/reference/commands' },
      { text: 'All pages', link: '/docs/' },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    search: { provider: 'local' },
  },
});
