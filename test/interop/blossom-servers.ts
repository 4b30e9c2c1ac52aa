/** The Blossom servers that other projects wrote. */
import { defineProgram, type ThirdProgram } from './third-party.ts';

export const khatruBlossom = defineProgram({
  name: 'khatru-blossom',
  version: '0.19.1',
  language: 'Go',
  program: 'khatru-blossom',
  command: async (program, port) => [program, `127.0.0.1:${port}`],
});

/** The only one that states its reasons in the body, and that speaks HTTP only. */
const blossomRs = defineProgram({
  name: 'blossom-rs',
  version: '0.3.0',
  language: 'Rust',
  program: 'blossom-rs',
  command: async (program, port) => [program, `127.0.0.1:${port}`],
});

export const blossomServers: readonly ThirdProgram[] = [khatruBlossom, blossomRs];
