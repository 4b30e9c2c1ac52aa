/**
 * What it costs to show the slashing registry a contradiction of each kind, on anvil:
 *   node --import tsx --conditions=nostrain:source test/bench/slash-gas.ts
 */
import { slashCall } from 'nostrain/chain';
import { startAnvil } from '../support/anvil.ts';
import { faults } from '../support/contradictions.ts';
import { signerOf } from '../support/signers.ts';

const chain = await startAnvil();
const signer = signerOf(1);
try {
  for (const [name, drafts] of Object.entries(faults)) {
    const registry = await chain.deploy(1n, { slashedPermille: 500, reporterPermille: 100 });
    await chain.bond(registry, 0, signer.publicKey, 10n ** 18n);
    const [a, b] = drafts.map((draft) => signer.sign(draft));
    const { gas } = await chain.send(slashCall(registry, chain.accounts[1]!, [a!, b!])!);
    process.stdout.write(`${String(gas).padStart(10)}  ${name}\n`);
  }
} finally {
  await chain.stop();
}
