/** ONNX operators that move elements, and reductions over axes. */
import { frontAxis, sizeOf, type Value } from '../../graph/rule.ts';
import * as ops from '../../graph/verbs.ts';
import {
  axesOf,
  type Call,
  front,
  int,
  intsOf,
  known,
  list,
  type Operator,
  type Operators,
  operand,
  optional,
  refusal,
  textOf,
  value,
  written,
} from '../call.ts';
import { rangesOf, reshapedTo, shapeOf, squeezedShape, unsqueezedShape } from '../fold.ts';
import { ints, isKnown } from '../tensor.ts';

/** Moves an axis to the front. */
const toFront = (x: Value, axis: number): Value =>
  axis === 0
    ? x
    : ops.transpose(x, [axis, ...x.shape.map((_, i) => i).filter((each) => each !== axis)]);

/** Selects entries along an axis by known or computed indices. */
function take(x: Value, axis: number, at: Value): Value {
  const rank = at.shape.length;
  const taken = ops.gather(toFront(x, axis), at); // at, rest
  if (axis === 0) return taken;
  const rest = x.shape.map((_, i) => rank + i).slice(0, -1);
  const order = [
    ...rest.slice(0, axis),
    ...Array.from({ length: rank }, (_, i) => i),
    ...rest.slice(axis),
  ];
  return ops.transpose(taken, order);
}

const indices = (call: Call, at: readonly number[]): Value =>
  call.graph.constant({ dtype: 'i64', shape: [at.length] }, at);

const gathered: Operator = (call) => {
  const [x, at] = [value(call, 0), operand(call, 1)];
  const axis = frontAxis(int(call, 'axis', 0), x.shape.length);
  if (!isKnown(at)) return [take(x, axis, value(call, 1))];
  const dim = x.shape[axis]!;
  const places = Array.from(at.elements, (i) => (i < 0 ? i + dim : i));
  const shape = [...x.shape.slice(0, axis), ...at.shape, ...x.shape.slice(axis + 1)];
  const isRange = places.every((place, i) => place === places[0]! + i);
  const picked = isRange
    ? ops.slice(x, axis, places[0]!, places[0]! + places.length)
    : take(x, axis, indices(call, places));
  return [ops.reshape(picked, shape)];
};

const sliced: Operator = (call) => {
  let x = value(call, 0);
  for (const { axis, start, step, count } of rangesOf(call, x.shape)) {
    if (step === 1 && count > 0) {
      if (count < x.shape[axis]!) x = ops.slice(x, axis, start, start + count);
    } else {
      const places = written(count, (i) => start + i * step);
      x = take(x, axis, indices(call, places));
    }
  }
  return [x];
};

const split: Operator = (call) => {
  const x = value(call, 0);
  const axis = frontAxis(int(call, 'axis', 0), x.shape.length);
  const parts = int(call, 'num_outputs', call.results);
  const each = Math.ceil(x.shape[axis]! / parts);
  const even = written(parts, (i) => Math.min(each, x.shape[axis]! - i * each));
  return ops.split(x, axis, list(call, 1) ?? even);
};

/** Picks one part of a split tensor. The importer puts the index before the inputs of the split. */
const part: Operator = (call) => {
  const index = known(call, 0).elements[0]!;
  const x = value(call, 1);
  const axis = frontAxis(int(call, 'axis', 0), x.shape.length);
  const dim = x.shape[axis]!;
  const sizes = call.inputs[2] ? known(call, 2) : undefined;
  const isEven = sizes?.shape.length !== 1;
  const each = sizes?.elements[0] ?? 1;
  const count = isEven ? Math.ceil(dim / each) : sizes.elements.length;
  const at = index < 0 ? index + count : index;
  const all = isEven ? undefined : Array.from(sizes.elements);
  const start = all ? all.slice(0, at).reduce((sum, size) => sum + size, 0) : at * each;
  const end = Math.min(dim, start + (all ? all[at]! : each));
  const cut = ops.slice(x, axis, start, end);
  const isKept = sizes !== undefined || int(call, 'keepdims', 1) === 1;
  return [isKept ? cut : ops.reshape(cut, cut.shape.toSpliced(axis, 1))];
};

/** Returns where the elements of a padded axis come from, for the modes that repeat elements. */
function source(mode: string, at: number, size: number): number {
  if (mode === 'edge') return Math.min(size - 1, Math.max(0, at));
  if (mode === 'wrap') return ((at % size) + size) % size;
  const period = Math.max(1, 2 * (size - 1));
  const phase = ((at % period) + period) % period;
  return phase < size ? phase : period - phase;
}

const padded: Operator = (call) => {
  let x = value(call, 0);
  const amounts = list(call, 1)!;
  const axes = front(list(call, 3) ?? x.shape.map((_, i) => i), x.shape.length);
  const mode = textOf(call, 'mode', 'constant');
  const fill = call.inputs[2] ? known(call, 2).elements[0]! : 0;
  axes.forEach((axis, i) => {
    const [before, after] = [amounts[i]!, amounts[i + axes.length]!];
    if (before === 0 && after === 0) return;
    const size = x.shape[axis]!;
    if (mode !== 'constant') {
      const places = written(before + size + after, (at) => source(mode, at - before, size));
      x = take(x, axis, indices(call, places));
      return;
    }
    const inside = [Math.max(0, -before), size - Math.max(0, -after)] as const;
    const cut = before < 0 || after < 0 ? ops.slice(x, axis, ...inside) : x;
    const [left, right] = [Math.max(0, before), Math.max(0, after)];
    if (fill === 0) x = left + right > 0 ? ops.pad(cut, axis, left, right) : cut;
    else {
      const full = (count: number) => ops.filled(cut, cut.shape.with(axis, count), fill);
      const parts = [left > 0 ? [full(left)] : [], [cut], right > 0 ? [full(right)] : []].flat();
      x = ops.concat(parts as [Value, ...Value[]], axis);
    }
  });
  return [x];
};

const expanded: Operator = (call) => {
  const x = value(call, 0);
  const to = list(call, 1)!;
  const rank = Math.max(to.length, x.shape.length);
  const shape = Array.from({ length: rank }, (_, i) =>
    Math.max(x.shape[i - rank + x.shape.length] ?? 1, to[i - rank + to.length] ?? 1),
  );
  return [ops.expand(x, shape)];
};

/** Repeats a value along each axis: as new axes that are joined with the old ones. */
const tiled: Operator = (call) => {
  const x = value(call, 0);
  const times = list(call, 1)!;
  const apart = ops.reshape(
    x,
    x.shape.flatMap((dim) => [1, dim]),
  );
  const wide = ops.expand(
    apart,
    x.shape.flatMap((dim, i) => [times[i]!, dim]),
  );
  return [
    ops.reshape(
      wide,
      x.shape.map((dim, i) => dim * times[i]!),
    ),
  ];
};

const depthToSpace: Operator = (call) => {
  const x = value(call, 0);
  const by = int(call, 'blocksize', 1);
  const [n, c, h, w] = x.shape as [number, number, number, number];
  const isRowMajor = textOf(call, 'mode', 'DCR') === 'DCR';
  const depth = c / (by * by);
  const apart = ops.reshape(x, isRowMajor ? [n, by, by, depth, h, w] : [n, depth, by, by, h, w]);
  const order = isRowMajor ? [0, 3, 4, 1, 5, 2] : [0, 1, 4, 2, 5, 3];
  return [ops.reshape(ops.transpose(apart, order), [n, depth, h * by, w * by])];
};

const spaceToDepth: Operator = (call) => {
  const x = value(call, 0);
  const by = int(call, 'blocksize', 1);
  const [n, c, h, w] = x.shape as [number, number, number, number];
  const apart = ops.reshape(x, [n, c, h / by, by, w / by, by]);
  return [ops.reshape(ops.transpose(apart, [0, 3, 5, 1, 2, 4]), [n, c * by * by, h / by, w / by])];
};

type Reduce = (x: Value, axes: readonly number[], keep: boolean) => Value;

const reduced =
  (reduce: Reduce): Operator =>
  (call) => {
    const x = value(call, 0);
    const given = axesOf(call);
    if (given?.length === 0 && int(call, 'noop_with_empty_axes', 0) === 1) return [x];
    const all = x.shape.map((_, i) => i);
    const axes = given?.length ? front(given, x.shape.length) : all;
    return [reduce(x, axes, int(call, 'keepdims', 1) === 1)];
  };

const shaped =
  (to: (call: Call, x: Value) => readonly number[]): Operator =>
  (call) => {
    const x = value(call, 0);
    return [ops.reshape(x, to(call, x))];
  };

const triangle: Operator = (call) => {
  const x = value(call, 0);
  const [rows, columns] = x.shape.slice(-2) as [number, number];
  const k = call.inputs[1] ? known(call, 1).elements[0]! : 0;
  const isUpper = int(call, 'upper', 1) === 1;
  const mask = written(rows * columns, (i) => {
    const distance = (i % columns) - Math.floor(i / columns) - k;
    return Number(isUpper ? distance >= 0 : distance <= 0);
  });
  const kept = call.graph.constant({ dtype: 'bool', shape: [rows, columns] }, mask);
  return [ops.where(kept, x, ops.constantLike(x, [], [0]))];
};

export const shaping: Operators = {
  Shape: (call) => [shapeOf(call, operand(call, 0).shape)],
  Size: (call) => [{ ...ints([sizeOf(operand(call, 0).shape)]), shape: [] }],
  Reshape: (call) => {
    const x = value(call, 0);
    return [ops.reshape(x, reshapedTo(call, x.shape, list(call, 1)!))];
  },
  Flatten: shaped((call, { shape }) => {
    const axis = int(call, 'axis', 1);
    const at = axis < 0 ? axis + shape.length : axis;
    return [sizeOf(shape.slice(0, at)), sizeOf(shape.slice(at))];
  }),
  Squeeze: shaped(squeezedShape),
  Unsqueeze: shaped(unsqueezedShape),
  Transpose: (call) => {
    const x = value(call, 0);
    return [ops.transpose(x, intsOf(call, 'perm') ?? x.shape.map((_, i) => i).reverse())];
  },
  Expand: expanded,
  Tile: tiled,
  Concat: (call) => {
    const parts = call.inputs.map((_, i) => value(call, i));
    return [ops.concat(parts as [Value, ...Value[]], int(call, 'axis', 0))];
  },
  Split: split,
  SequenceAt: part,
  Slice: sliced,
  Gather: gathered,
  Pad: padded,
  DepthToSpace: depthToSpace,
  SpaceToDepth: spaceToDepth,
  Trilu: triangle,
  ReduceSum: reduced(ops.reduceSum),
  ReduceMean: reduced(ops.reduceMean),
  ReduceMax: reduced(ops.reduceMax),
  ReduceMin: reduced((x, axes, keep) => ops.neg(ops.reduceMax(ops.neg(x), axes, keep))),
  ReduceSumSquare: reduced((x, axes, keep) => ops.reduceSum(ops.square(x), axes, keep)),
  ReduceL1: reduced((x, axes, keep) => ops.reduceSum(ops.abs(x), axes, keep)),
  ReduceL2: reduced((x, axes, keep) => ops.sqrt(ops.reduceSum(ops.square(x), axes, keep))),
  ReduceLogSum: reduced((x, axes, keep) => ops.log(ops.reduceSum(x, axes, keep))),
  ReduceLogSumExp: reduced((x, axes, keep) => {
    const highest = ops.reduceMax(x, axes, true);
    const sum = ops.log(ops.reduceSum(ops.exp(ops.sub(x, highest)), axes, true));
    const wide = ops.add(sum, highest);
    return keep ? wide : ops.reduceSum(wide, axes, false);
  }),
  ConstantOfShape: (call) => {
    const shape = list(call, 0)!;
    const filler = call.graph.constant({ dtype: call.float, shape: [] }, [int(call, 'fill', 0)]);
    return [ops.expand(filler, shape)];
  },
  ArgMax: (call) => {
    if (optional(call, 0) === undefined) throw refusal(call, 'lacks its input', 'export again');
    const x = value(call, 0);
    const axis = frontAxis(int(call, 'axis', 0), x.shape.length);
    const at = ops.argMax(x, axis);
    return [int(call, 'keepdims', 1) === 1 ? at : ops.reshape(at, x.shape.toSpliced(axis, 1))];
  },
};
