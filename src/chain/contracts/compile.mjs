/**
 * Compiles the contracts and writes ABI and bytecode where they are used; `--check` compares instead. The compiler is no
 * dependency. From the repository's root:
 *   npm install --prefix /tmp/solc solc@0.8.37
 *   node src/chain/contracts/compile.mjs /tmp/solc [--check]
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const [folder = '', mode] = process.argv.slice(2);
const solc = createRequire(`${resolve(folder)}/`)('solc');
const at = (path) => new URL(path, import.meta.url);

const targets = [
  {
    name: 'StakeRegistry',
    constant: 'stakeRegistry',
    file: '../registry/stake-registry.ts',
  },
  {
    name: 'SlashingRegistry',
    constant: 'slashingRegistry',
    file: '../registry/slashing-registry.ts',
  },
  { name: 'TestToken', constant: 'testToken', file: '../../../test/support/test-token.ts' },
];

const input = {
  language: 'Solidity',
  sources: Object.fromEntries(
    targets.map(({ name }) => [
      `${name}.sol`,
      { content: readFileSync(at(`${name}.sol`), 'utf8') },
    ]),
  ),
  settings: {
    evmVersion: 'paris',
    optimizer: { enabled: true, runs: 200 },
    metadata: { appendCBOR: false, bytecodeHash: 'none' },
    outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
for (const { formattedMessage } of output.errors ?? []) process.stderr.write(formattedMessage);

for (const { name, constant, file } of targets) {
  const { abi, evm } = output.contracts[`${name}.sol`][name];
  const text = `/** src/chain/contracts/${name}.sol compiled by solc ${solc.version().split('+')[0]}; written by src/chain/contracts/compile.mjs. */

/** The ABI as JSON text, and the bytecode that creates the contract; its constructor's arguments come after that. */
export const ${constant} = {
  abi: ${JSON.stringify(JSON.stringify(abi))},
  bytecode:
    '0x${evm.bytecode.object}',
} as const;
`;
  if (mode !== '--check') writeFileSync(at(file), text);
  else if (!readFileSync(at(file), 'utf8').includes(evm.bytecode.object)) {
    process.stderr.write(`${file} is not what ${name}.sol compiles to\n`);
    process.exitCode = 1;
  }
}
