import type { RunEvent } from 'nostrain/certified';
import { afterEach, describe, expect, it } from 'vitest';
import { Metrics, serveMetrics } from '../../../src/node/net/http-server.ts';

const round: RunEvent = {
  ...{ type: 'round', index: 2, base: '', digest: '', accepted: ['a', 'b'], refused: [] },
  ...{
    completionReason: 'certified',
    trainingLoss: 2.5,
    validationLoss: 2.25,
    accuracy: 0.75,
    payloadBytes: 10,
  },
  ...{ eventBytes: 20, residualShare: 0, secondsTraining: 1, secondsWaiting: 2, seconds: 3 },
};

describe('numbers for scrapers', () => {
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const each of open.splice(0)) each.close();
  });

  it('follow what a worker reports, each round once', () => {
    const metrics = new Metrics();
    metrics.take(round);
    metrics.take(round);
    metrics.take({ type: 'refused', round: 2, reason: 'malformed', detail: '"} 1\n' });
    metrics.take({ type: 'stalled', round: 3, attempt: 0, view: 0, missing: ['a'] });
    const lines = metrics.text().split('\n');
    expect(lines).toContain('nostrain_rounds_total 1');
    expect(lines).toContain('nostrain_round 4');
    expect(lines).toContain('nostrain_validation_loss 2.25');
    expect(lines).toContain('nostrain_accuracy 0.75');
    expect(lines).toContain('nostrain_refused_total{reason="malformed"} 1');
    expect(lines).toContain('nostrain_missing 1');
    expect(lines.slice(-2)).toEqual(['# EOF', '']);
    const form =
      /^(?:# (?:TYPE|HELP) nostrain_\w+ .+|nostrain_\w+(?:\{reason="[a-z-]+"\})? \S+|# EOF|)$/;
    expect(lines.filter((line) => !form.test(line))).toEqual([]);
  });

  it('are served at /metrics, and nowhere else', async () => {
    const metrics = new Metrics();
    metrics.take(round);
    const served = await serveMetrics(metrics, 0);
    open.push(served);
    const answer = await fetch(served.url);
    expect(answer.headers.get('content-type')).toContain('application/openmetrics-text');
    expect(await answer.text()).toBe(metrics.text());
    expect((await fetch(served.url.replace('/metrics', '/'))).status).toBe(404);
  });
});
