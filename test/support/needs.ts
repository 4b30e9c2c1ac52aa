/**
 * Requirements that not every machine meets. A test whose requirement is missing is skipped with the reason in its
 * name, and the summary of a test run lists the reasons.
 */
import { existsSync } from 'node:fs';
import { describe, it, type TestOptions } from 'vitest';

/** Reason why a test cannot run on this machine; undefined if it can. */
export type Missing = string | undefined;

const named = (name: string, missing: Missing) =>
  missing === undefined ? name : `${name} (skipped: ${missing})`;

export const describeWith =
  (missing: Missing) =>
  (name: string, group: () => void, options: TestOptions = {}): void => {
    describe.skipIf(missing !== undefined)(named(name, missing), options, group);
  };

export const itWith =
  (missing: Missing) =>
  (name: string, test: () => Promise<void>, options: TestOptions = {}): void => {
    it.skipIf(missing !== undefined)(named(name, missing), options, test);
  };

/** Reports whether the program of another project lies where the script of `test/interop/<name>` installs it. */
export const installed = (program: string, name: string): Missing =>
  existsSync(program)
    ? undefined
    : `not installed; that takes: bash test/interop/${name}/install.sh`;

/** Windows has no permission bits of this kind. */
export const permissionsMissing: Missing =
  process.platform === 'win32' ? 'Windows has no file modes' : undefined;

/** Windows has no POSIX shell. */
export const shellMissing: Missing =
  process.platform === 'win32' ? 'Windows has no /bin/sh' : undefined;

const SCRIPT = '/usr/bin/script';

/** A program that runs another one on a terminal of its own. */
export const terminalMissing: Missing =
  process.platform === 'linux' && existsSync(SCRIPT) ? undefined : `there is no ${SCRIPT} of Linux`;
