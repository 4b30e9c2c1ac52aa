/** Builds elements whose content is always text, so that nothing from a relay is parsed as HTML, style or URL. */
import { safe } from '../base/errors.ts';

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
export type Child = Node | string | number | undefined | false;

/** The only attributes that views can set. */
const ALLOWED = new Set(
  (
    'class id role type min max step value scope for name placeholder disabled open hidden ' +
    'colspan tabindex datetime title multiple autocomplete spellcheck viewBox d x y x1 y1 ' +
    'x2 y2 cx cy r points width height text-anchor preserveAspectRatio'
  ).split(' '),
);

const SVG = 'http://www.w3.org/2000/svg';

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export const s = <K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[K] =>
  fill(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);

function fill<E extends Element>(
  element: E,
  attributes: Attributes,
  children: readonly Child[],
): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (!ALLOWED.has(name) && !/^aria-[a-z]+$/.test(name))
      throw new TypeError(`no attribute ${name}`);
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : safe(String(value)));
  }
  element.append(...children.filter(isShown).map(toNode));
  return element;
}

const isShown = (child: Child): child is Node | string | number =>
  child !== undefined && child !== false;

const toNode = (child: Node | string | number): Node =>
  child instanceof Node ? child : document.createTextNode(safe(String(child)));

/** Replaces the children of an element. */
export const show = (element: Element, ...children: readonly Child[]): void =>
  element.replaceChildren(...children.filter(isShown).map(toNode));

/** Renders the cells of a table, by column heading. */
export type Columns<T> = Readonly<Record<string, (item: T) => Child>>;

/** Returns a table with a row per item, and a caption for screen readers. */
export function table<T>(caption: string, columns: Columns<T>, items: readonly T[]): HTMLElement {
  const headings = Object.keys(columns).map((each) => h('th', { scope: 'col' }, each));
  const head = h('tr', {}, ...headings);
  const body = items.map((item) => {
    const [first, ...rest] = Object.values(columns).map((cell) => cell(item));
    return h('tr', {}, h('th', { scope: 'row' }, first), ...rest.map((each) => h('td', {}, each)));
  });
  const element = h(
    'table',
    {},
    h('caption', {}, caption),
    h('thead', {}, head),
    h('tbody', {}, ...body),
  );
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, element);
}

export function button(
  text: string,
  onClick: () => void,
  attributes: Attributes = {},
): HTMLElement {
  const made = h('button', { type: 'button', ...attributes }, text);
  made.addEventListener('click', onClick);
  return made;
}
