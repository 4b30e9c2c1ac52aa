/** All faults. A new one is an object in a file of this folder and a line here. */
import { backupRestored, diskFull, diskLost } from './disks.ts';
import type { Fault } from './fault.ts';
import * as hostile from './hostile.ts';
import { halves, oneWay, partition } from './partition.ts';
import { comesLate, keyShared, killed, leaves, sleeps } from './process.ts';
import * as relays from './relays.ts';
import { clocksApart, skew } from './skew.ts';
import { strangersFlood } from './strangers.ts';

export const faults: readonly Fault[] = [
  ...[killed, comesLate, leaves, sleeps, keyShared],
  ...[diskLost, backupRestored, diskFull],
  ...Object.values(relays),
  ...[partition, halves, oneWay, skew, clocksApart, strangersFlood],
  ...Object.values(hostile),
];

/** Returns the fault of this name; throws if there is none. */
export function faultNamed(name: string): Fault {
  const fault = faults.find((each) => each.name === name);
  if (!fault) throw new TypeError(`no fault is called ${name}`);
  return fault;
}
