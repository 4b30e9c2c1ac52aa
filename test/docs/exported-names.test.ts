/**
 * Every exported name says what it is. Those of the products are also seen in use: each value is in an example that runs, each type
 * is in what such a value takes or returns.
 */
import { expect, it } from 'vitest';
import { examples, typed } from '../support/examples.ts';
import { typeErrors } from '../support/type-errors.ts';
import { readExportedNames } from './exported-names.ts';

const names = readExportedNames();
const called = (pick: (name: (typeof names)[number]) => boolean): readonly string[] =>
  names.filter(pick).map(({ entry, name }) => `${name} of ${entry}`);

it('every exported value of a product has an example', () => {
  expect(names.length).toBeGreaterThan(100);
  expect(called(({ isOfProduct, isType, isShown }) => isOfProduct && !isType && !isShown)).toEqual(
    [],
  );
});

it('every exported type of a product is used by something that has an example', () => {
  expect(
    called(
      ({ isOfProduct, isType, isShown, isReached }) =>
        isOfProduct && isType && !isShown && !isReached,
    ),
  ).toEqual([]);
});

it('every exported name says what it is', () => {
  // `ops` is a module, described where its file begins
  expect(called(({ name, says }) => says === '' && name !== 'ops')).toEqual([]);
});

it('the examples compile', { timeout: 180_000 }, () => {
  const blocks = examples.map(({ where, code }) => ({ name: where, code: typed(code) }));
  expect(typeErrors(blocks)).toEqual([]);
});
