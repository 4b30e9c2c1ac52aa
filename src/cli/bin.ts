#!/usr/bin/env node
/** The executable: runs the command line and ends the process with its exit code. */
import { main } from './main.ts';

// whoever read the output has gone (`nostrain … | head`), or the demo this worker belongs to has
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(1);
  throw error;
});

process.exitCode = await main(process.argv.slice(2));
