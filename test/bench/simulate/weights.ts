/**
 * What in the memory of a simulation is whose: bytes of a heap snapshot that only its relays hold, that only the simulator holds, what the
 * engine holds for the code that runs, and the rest, which is the workers'.
 */
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeHeapSnapshot } from 'node:v8';

export interface Weights {
  readonly relays: number;
  readonly simulator: number;
  /** Compiled code, and the shapes of objects. */
  readonly code: number;
  readonly workers: number;
  /** Of the last two, by what it is: the largest first. */
  readonly byName: ReadonlyMap<string, number>;
}

/** Classes that hold what grows there. */
const RELAYS = ['Store', 'Session', 'SimulatedRelay'];
const SIMULATOR = ['Shared', 'Tally', 'TimeBook'];
const CODE = ['(code)', '(object shape)', '(hidden)'];

interface Snapshot {
  readonly snapshot: {
    readonly meta: {
      readonly node_fields: readonly string[];
      readonly edge_fields: readonly string[];
      readonly node_types: readonly [readonly string[]];
      readonly edge_types: readonly [readonly string[]];
    };
  };
  readonly nodes: readonly number[];
  readonly edges: readonly number[];
  readonly strings: readonly string[];
}

/** Takes a snapshot now; it is read when it is asked for, so that reading it is not part of a later one. */
export function takeSnapshot(): () => Weights {
  const file = writeHeapSnapshot(
    join(tmpdir(), `nostrain-${process.pid}-${Date.now()}.heapsnapshot`),
  );
  return () => {
    const snapshot = JSON.parse(readFileSync(file, 'utf8')) as Snapshot;
    rmSync(file);
    return weigh(snapshot);
  };
}

function weigh(snapshot: Snapshot): Weights {
  const graph = new Graph(snapshot);
  const all = graph.reachable([]);
  const withoutRelays = graph.reachable(RELAYS);
  const withoutBoth = graph.reachable([...RELAYS, ...SIMULATOR]);
  const bytes = (seen: Uint8Array) => sumOf([...graph.byName(seen).values()]);
  const byName = graph.byName(withoutBoth);
  const code = sumOf(CODE.map((name) => byName.get(name) ?? 0));
  return {
    relays: bytes(all) - bytes(withoutRelays),
    simulator: bytes(withoutRelays) - bytes(withoutBoth),
    ...{ code, workers: bytes(withoutBoth) - code, byName },
  };
}

const sumOf = (list: readonly number[]): number => list.reduce((sum, bytes) => sum + bytes, 0);

/** Objects and who holds them. */
class Graph {
  readonly #snapshot: Snapshot;
  /** Of a node: its fields, and where its edges begin. */
  readonly #width: number;
  readonly #firstEdge: Uint32Array;

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot;
    const { nodes } = snapshot;
    const { node_fields: fields, edge_fields } = snapshot.snapshot.meta;
    this.#width = fields.length;
    const count = nodes.length / this.#width;
    const edgeCount = fields.indexOf('edge_count');
    this.#firstEdge = new Uint32Array(count + 1);
    for (let i = 0; i < count; i++) {
      const edges = nodes[i * this.#width + edgeCount]!;
      this.#firstEdge[i + 1] = this.#firstEdge[i]! + edges * edge_fields.length;
    }
  }

  /** What can be reached when objects of these classes cannot be entered. */
  reachable(without: readonly string[]): Uint8Array {
    const { nodes, edges, snapshot } = this.#snapshot;
    const { edge_fields: fields, edge_types: types } = snapshot.meta;
    const weak = types[0].indexOf('weak');
    const [type, to] = [fields.indexOf('type'), fields.indexOf('to_node')];
    const seen = new Uint8Array(nodes.length / this.#width);
    const open = [0];
    seen[0] = 1;
    while (open.length > 0) {
      const node = open.pop()!;
      for (let at = this.#firstEdge[node]!; at < this.#firstEdge[node + 1]!; at += fields.length) {
        const next = edges[at + to]! / this.#width;
        if (seen[next] || edges[at + type] === weak) continue;
        if (without.length > 0 && without.includes(this.#nameOf(next, 'object'))) continue;
        seen[next] = 1;
        open.push(next);
      }
    }
    return seen;
  }

  byName(seen: Uint8Array): ReadonlyMap<string, number> {
    const { nodes, snapshot } = this.#snapshot;
    const size = snapshot.meta.node_fields.indexOf('self_size');
    const sums = new Map<string, number>();
    for (let i = 0; i < seen.length; i++) {
      if (!seen[i]) continue;
      const name = this.#nameOf(i);
      sums.set(name, (sums.get(name) ?? 0) + nodes[i * this.#width + size]!);
    }
    return new Map([...sums].sort((a, b) => b[1] - a[1]));
  }

  /** The class of an object, else what else it is. */
  #nameOf(node: number, only?: string): string {
    const { nodes, strings, snapshot } = this.#snapshot;
    const { node_fields: fields, node_types: types } = snapshot.meta;
    const type = types[0][nodes[node * this.#width + fields.indexOf('type')]!]!;
    if (type !== 'object') return only === undefined ? `(${type})` : '';
    return strings[nodes[node * this.#width + fields.indexOf('name')]!]!;
  }
}
