/** Interface of a fault, and of the stage that it acts on. The core of the simulation knows no fault by name. */
import type { RelaySet, Signer } from 'nostrain/network';
import type { Vector } from 'nostrain/tensor';
import type { Attack } from '../attacks.ts';
import type { WorldDisk } from '../disk.ts';
import type { Draws } from '../draws.ts';
import type { World } from '../world.ts';

/** One occurrence of a fault, as plain data. */
export interface FaultCase {
  readonly fault: string;
  readonly [parameter: string]: string | number | readonly number[];
}

export type Parameters = Omit<FaultCase, 'fault'>;

/** Faults of the relay itself by name, as in relay/faults/settings.ts; undefined ends one. */
export type RelayFaults = Readonly<Record<string, number | boolean | undefined>>;

/** Returns what arrives in place of a frame. */
export type Alteration = (text: string, draws: Draws) => string;

export type IsLost = (worker: number, relay: number, way: 'up' | 'down') => boolean;

/** What faults can do to a world. Workers and relays are numbered from 0, seconds count from the beginning. */
export interface Stage {
  readonly world: World;
  after(seconds: number, act: () => void): void;
  /** Kills the process of a worker, which comes back after so many seconds; it may be dead already. */
  kill(worker: number, awaySeconds: number): void;
  /** The worker starts only then. */
  comesLate(worker: number, seconds: number): void;
  disk(worker: number): WorldDisk;
  /** Starts a second machine with the key of a worker and an empty disk. */
  startTwin(worker: number): void;
  /** Sets how far the clock of a worker is ahead, and how many parts in a million it gains. */
  setClock(worker: number, aheadMs: number, gainPpm: number): void;
  /** Adds to what a worker does to what it sends. */
  setAttack(worker: number, attack: Attack): void;
  /** Sets what a worker makes of the parameters that it trained. */
  setTraining(worker: number, change: (params: Vector, round: number) => Vector): void;
  /** The worker finds that the steps of all others lead elsewhere. */
  setMisjudging(worker: number): void;
  /** Lets a machine of a stranger, with as many keys, act over the relays from one second to another. */
  visit(from: number, to: number, keys: number, act: Visit): void;
  /** Stops the clock and the timers of a machine until that second. */
  suspend(worker: number, untilSeconds: number): void;
  /** Severs workers from relays while `isSevered` holds, from one second to another. */
  sever(from: number, to: number, isSevered: (worker: number, relay: number) => boolean): void;
  /** Loses the frames for which `isLost` holds, from one second to another; connections stay open. */
  lose(from: number, to: number, isLost: IsLost): void;
  /** Deletes all events of a relay. */
  forget(relay: number): void;
  /** Sets how much longer frames from and to a relay take. */
  slowDown(relay: number, ms: number): void;
  /** Changes the frames of a relay on their way to workers, from one second to another. */
  alter(relay: number, from: number, to: number, change: Alteration): void;
  /** Changes the faults that a relay injects; its connections end, so that all see them. */
  setRelay(relay: number, faults: RelayFaults): void;
}

/** What a stranger does once its machine is there. */
export type Visit = (relays: RelaySet, signers: readonly Signer[]) => void;

export interface Fault {
  readonly name: string;
  /** Whether its updates count in the model, so that the loss says nothing. */
  readonly changesLoss?: boolean;
  /** Only certified runs withstand it. */
  readonly isCertified?: boolean;
  /** Draws one occurrence; undefined if the world has no room for it. */
  draw(draws: Draws, world: World): Parameters | undefined;
  /** Plans the harm; called before the first worker starts. */
  begin(parameters: FaultCase, stage: Stage): void;
  /** When the last harm is over, in seconds. */
  endSeconds(parameters: FaultCase): number;
  /** Workers that are no longer honest with an intact machine. */
  spoils?(parameters: FaultCase, all: readonly FaultCase[]): readonly number[];
}

/** Returns a moment in the first three quarters of the training time of a world. */
export const drawMoment = (draws: Draws, { rounds, trainSeconds: [, most] }: World): number =>
  Math.round(1000 * draws.between(0, 0.75 * rounds * most)) / 1000;

export const drawSeconds = (draws: Draws, least: number, most: number): number =>
  Math.round(1000 * draws.between(least, most)) / 1000;

/** Returns a number of a case. */
export function numberOf(parameters: FaultCase, name: string): number {
  const value = parameters[name];
  if (typeof value !== 'number') throw new TypeError(`${parameters.fault} needs a number ${name}`);
  return value;
}

/** Returns a list of numbers of a case. */
export function listOf(parameters: FaultCase, name: string): readonly number[] {
  const value = parameters[name];
  if (!Array.isArray(value)) throw new TypeError(`${parameters.fault} needs a list ${name}`);
  return value;
}

/** Returns hostile workers that the smallest committee of the run withstands, if all of them sit in it. */
export function mostHostile({ founders, document }: World): number {
  const { size = founders } = (document.committee ?? {}) as { readonly size?: number };
  return Math.floor((Math.min(founders, size) - 1) / 3);
}

/** Returns the highest worker or relay that a case names, -1 if it names none. */
export const highestIn = (parameters: FaultCase, name: 'worker' | 'relay'): number =>
  Math.max(-1, ...[parameters[name] ?? [], parameters[`${name}s`] ?? []].flat().map(Number));
