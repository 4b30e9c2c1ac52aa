/** The exit codes of the program, for whoever calls it from a script; docs/reference/exit-codes.md is made from this table. */
import { constants } from 'node:os';

export const exitCodes = {
  done: { code: 0, means: 'Done. Help and version end so too.' },
  failed: {
    code: 1,
    means:
      'Failed, or the answer is no: a relay that is of no use, a replay that finds a wrong round, workers of a demo that disagree. The reason is on stderr.',
  },
  usage: {
    code: 2,
    means: 'The command line or a settings file is wrong: an unknown flag, a value that cannot be.',
  },
  interrupted: {
    code: 128 + constants.signals.SIGINT,
    means: 'Stopped by Ctrl-C (SIGINT). What was trained is saved; the same command goes on.',
  },
  terminated: {
    code: 128 + constants.signals.SIGTERM,
    means: 'Stopped by SIGTERM, as a service manager sends it; like Ctrl-C.',
  },
} as const;
