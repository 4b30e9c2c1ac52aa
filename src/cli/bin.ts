#!/usr/bin/env node
/** The executable: runs the command line and sets the exit code of the process. */
import { main } from './main.ts';

// EPIPE: the reader of the output has ended (`nostrain … | head`), or the demo that started this worker
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(1);
  throw error;
});

process.exitCode = await main(process.argv.slice(2));
