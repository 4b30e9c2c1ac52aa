/** All faults. A new one is an object in a file of this folder and a line here. */
import type { Fault } from './fault.ts';
import { equivocates, withholds } from './hostile.ts';
import { partition } from './partition.ts';
import { comesLate, killed } from './process.ts';
import { relayDies, relayForgets, relayLies } from './relays.ts';
import { skew } from './skew.ts';

export const faults: readonly Fault[] = [
  killed,
  comesLate,
  relayDies,
  relayForgets,
  relayLies,
  partition,
  skew,
  equivocates,
  withholds,
];

/** Returns the fault of this name; throws if there is none. */
export function faultNamed(name: string): Fault {
  const fault = faults.find((each) => each.name === name);
  if (!fault) throw new TypeError(`no fault is called ${name}`);
  return fault;
}
