import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRegressionCsv } from '../../../src/model/data/csv.ts';
import { dealRows } from '../../../src/model/data/regression.ts';

describe('a table', () => {
  it('is read with its target in any column, separated by commas, semicolons or tabs', () => {
    for (const separator of [',', ';', '\t']) {
      const text = '\ufeffage,price,"rooms"\r\n10,1.5e2,3\r\n\r\n20,"200",4\r\n'.replaceAll(
        ',',
        separator,
      );
      expect(parseRegressionCsv(text, 'price')).toEqual({
        size: 2,
        features: 2,
        inputs: Float64Array.of(10, 3, 20, 4),
        targets: Float64Array.of(150, 200),
      });
    }
  });

  it('may have quotes, separators and newlines in its names', () => {
    const { targets } = parseRegressionCsv('"a, ""b""\nc",y\n1,2\n', 'y');
    expect(targets).toEqual(Float64Array.of(2));
    expect(() => parseRegressionCsv('"a, ""b""\nc",y\n1,x\n', 'y')).toThrow('line 3, column "y"');
  });

  it.each([
    ['a,b\n1,2\n', undefined, 'the name of the column to predict; its columns are "a", "b"'],
    ['a,b\n1,2\n', 'c', 'has no column "c"; its columns are "a", "b"'],
    ['a,b\n1,2\n3,four\n', 'b', 'has "four" in line 3, column "b", which is not a number'],
    ['a,b\n1,\n', 'b', 'has "" in line 2, column "b"'],
    ['a,b\n1,2\n3\n', 'b', 'has 1 cells in line 3, where line 1 has 2'],
    ['a,b\n', 'b', 'rows below it'],
    ['a\n1\n', 'a', 'at least two column names'],
    ['', 'a', 'at least two column names'],
  ])('%j with target %s is refused in words', (text, target, words) => {
    expect(() => parseRegressionCsv(text, target)).toThrow(words);
  });

  it('gives rows or an error in words, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'a1,;"\n\r\t .') }), (text) => {
        try {
          const { inputs, targets, size, features } = parseRegressionCsv(text, 'a');
          expect([inputs.length, targets.length]).toEqual([size * features, size]);
        } catch (error) {
          expect(error).toMatchObject({ code: 'data/dataset' });
        }
      }),
    );
  });
});

describe('rows of a file that all workers have', () => {
  const rows = (size: number) => ({
    ...{ size, features: 1, inputs: Float64Array.from({ length: size }, (_, i) => i) },
    targets: Float64Array.from({ length: size }, (_, i) => 10 * i),
  });

  it('are dealt once each, every tenth held out', () => {
    const dealt = [1, 2, 3].map((index) => dealRows(rows(50), { index, count: 3 }));
    const seen = [
      ...dealt.flatMap(({ rows: dealtRows }) => [...dealtRows.inputs]),
      ...dealt[0]!.validation!.inputs,
    ];
    expect(seen.sort((a, b) => a - b)).toEqual([...rows(50).inputs]);
    expect([...dealt[0]!.validation!.targets]).toEqual([90, 190, 290, 390, 490]);
    for (const { validation } of dealt) expect(validation).toEqual(dealt[0]!.validation);
  });

  it('are all trained on where there are few', () => {
    const { rows: all, validation } = dealRows(rows(12), { index: 1, count: 1 });
    expect([all.size, validation]).toEqual([12, undefined]);
    expect(() => dealRows(rows(2), { index: 3, count: 3 })).toThrow('no rows for shard 3/3');
  });
});
