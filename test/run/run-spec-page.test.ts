import { buildRun, toRun } from 'nostrain/certified/parts';
import { createSigner, type SignedEvent } from 'nostrain/network';
import { completeDocument } from 'nostrain/run';
import { parse } from 'smol-toml';
import { expect, it } from 'vitest';
import { sampleDocument, sampleSpec } from '../support/run-spec.ts';
import { example, renderPage } from '../support/run-spec-page.ts';

it('docs/run-spec.md says what the code does', async () => {
  await expect(renderPage()).toMatchFileSnapshot('../../docs/run-spec.md');
});

it('its example is a file that `run create` takes', () => {
  expect(completeDocument(parse(example), sampleDocument())).toMatchObject({
    name: 'four friends',
    committee: { quorum: 'cft', size: 64 },
    training: { rounds: 20, innerSteps: 100 },
    timing: { viewMs: 20_000, skewMs: 60_000 },
  });
});

/** As the formatter leaves it. */
function written({ tags, ...event }: SignedEvent): string {
  const { id, pubkey, created_at, kind, content, sig } = event;
  const rows = tags.map(([name, value]) => `    ["${name}", "${value}"]`).join(',\n');
  const text = JSON.stringify({ id, pubkey, created_at, kind, tags: 0, content, sig }, null, 2);
  return `${text.replace('"tags": 0', `"tags": [\n${rows}\n  ]`)}\n`;
}

it('the sample event of kind 37810 is a whole spec of today', async () => {
  const secret = new Uint8Array(32);
  secret[31] = 3;
  const me = createSigner(secret);
  const founders = [me.publicKey, '11'.repeat(32)];
  const spec = sampleSpec({ author: me.publicKey, founders });
  const event = me.sign(buildRun(spec, { createdAt: 1_700_000_062, expiresAt: 1_731_536_062 }));
  expect(toRun(event).ok).toBe(true);
  await expect(written(event)).toMatchFileSnapshot('../../kinds/samples/run/valid.json');
});
