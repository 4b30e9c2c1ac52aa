#!/usr/bin/env node
/** The executable: runs the command line and ends the process with its exit code. */
import { main } from './main.ts';

process.exitCode = await main(process.argv.slice(2));
