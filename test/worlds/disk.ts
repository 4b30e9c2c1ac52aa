/**
 * The disk of a worker. It outlives the worker's processes, can kill one of them at a given write, and can be full,
 * lost or restored.
 */
import type { Entry, Journal } from 'nostrain/certified';
import type { CertifiedState } from 'nostrain/certified/parts';
import type { WorkerState } from 'nostrain/worker';
import type { PrivateStore } from '../../src/certified/features/feature.ts';
import type { Disk } from '../support/certified-swarm.ts';
import type { Held } from './holders.ts';

/** Contents of a disk; each write replaces the whole object, so that a reference to an old one is a backup. */
export interface Files {
  readonly state?: CertifiedState | undefined;
  readonly entry?: Entry | undefined;
  readonly backfill: ReadonlyMap<number, string>;
  readonly phase?: Uint8Array | undefined;
  /** Private states, by root. */
  readonly states: ReadonlyMap<string, Uint8Array>;
  /** Chunks of checkpoints that this worker holds for others. */
  readonly held: Held;
  /** State of a plain run. */
  readonly plain?: WorkerState | undefined;
}

export const noFiles: Files = { backfill: new Map(), states: new Map(), held: new Map() };

/** Of a write: before the file changes, when half of it is on disk, or right after. */
export type WriteMoment = 'before-write' | 'torn-write' | 'after-write';

interface Trap {
  writesLeft: number;
  readonly moment: WriteMoment;
  readonly spring: () => void;
}

/** What a write to a full disk fails with. */
export const NO_SPACE = 'ENOSPC: no space left on device';

/** The disk as one process sees it. */
export interface Mounted extends Disk {
  plain: WorkerState | undefined;
  held: Held;
  readonly journal: Journal;
  readonly states: PrivateStore;
  /** The process is dead: nothing it still writes is kept. */
  unmount(): void;
}

export class WorldDisk {
  files: Files = noFiles;
  /** How often all files were lost. */
  losses = 0;
  #traps: Trap[] = [];
  #isFull = false;

  /** Loses all files. */
  lose(): void {
    this.files = noFiles;
    this.losses++;
  }

  /** While it is full, writes fail. */
  fill(isFull: boolean): void {
    this.#isFull = isFull;
  }

  /** Calls `spring` at a moment of a later write, after as many others. */
  onWrite(writesLeft: number, moment: WriteMoment, spring: () => void): void {
    this.#traps.push({ writesLeft, moment, spring });
  }

  mount(): Mounted {
    let isDead = false;
    const spring = (moment: WriteMoment) => {
      const due = this.#traps.filter((trap) => trap.writesLeft === 0 && trap.moment === moment);
      this.#traps = this.#traps.filter((trap) => !due.includes(trap));
      for (const trap of due) trap.spring();
    };
    // files that are replaced as a whole are never torn
    const write = (changed: Partial<Files>, torn: Partial<Files> = {}): void => {
      if (isDead) return;
      if (this.#isFull) throw new Error(NO_SPACE);
      const whole = this.files;
      spring('before-write');
      if (isDead) return;
      spring('torn-write');
      this.files = { ...whole, ...(isDead ? torn : changed) };
      if (isDead) return;
      spring('after-write');
      for (const trap of this.#traps) trap.writesLeft = Math.max(0, trap.writesLeft - 1);
    };
    const files = () => this.files;
    return {
      get state() {
        return files().state;
      },
      set state(state) {
        write({ state });
      },
      get entry() {
        return files().entry;
      },
      set entry(entry) {
        write({ entry });
      },
      get phase() {
        return files().phase!;
      },
      set phase(phase) {
        write({ phase }, { phase: phase.subarray(0, phase.length >> 1) });
      },
      get held() {
        return files().held;
      },
      set held(held) {
        write({ held });
      },
      get plain() {
        return files().plain;
      },
      set plain(plain) {
        write({ plain });
      },
      journal: {
        load: async () => this.files.entry,
        save: async (entry) => write({ entry: { ...entry, own: { ...entry.own } } }),
        backfill: {
          load: async (round) => this.files.backfill.get(round),
          save: async (round, text) => {
            const holding = (part: string) => ({
              backfill: new Map(this.files.backfill).set(round, part),
            });
            write(holding(text), holding(text.slice(0, text.length >> 1)));
          },
          remove: async (round) =>
            write({ backfill: new Map([...this.files.backfill].filter(([at]) => at !== round)) }),
          sizes: async () =>
            new Map([...this.files.backfill].map(([at, { length }]) => [at, length])),
        },
      },
      states: {
        load: async (root) => this.files.states.get(root),
        save: async (root, bytes) => write({ states: new Map(this.files.states).set(root, bytes) }),
      },
      unmount: () => {
        isDead = true;
      },
    };
  }
}
