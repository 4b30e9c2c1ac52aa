/** N-14 as numbers: how long a lie takes to be found, cold and warm, and how far memory grows the first time. */
import { hostilePayloads } from '../../support/hostile-payloads.ts';
import { cpuMs, median } from './measure.ts';

/** Prints a row for each hostile payload. */
export function printHostile(runs: number): void {
  console.log(
    'payload                                    bytes  first, ms  median  RSS grows by, MB',
  );
  for (const { name, refused, bytes, decode } of hostilePayloads()) {
    const times: number[] = [];
    const before = process.memoryUsage.rss();
    let after = before;
    for (let i = 0; i <= runs; i++) {
      const started = cpuMs();
      const result = decode();
      times.push(cpuMs() - started);
      if (i === 0) after = process.memoryUsage.rss();
      if (result.ok || result.issue.code !== refused) throw new Error(`${name}: not ${refused}`);
    }
    console.log(
      [
        name.padEnd(40),
        String(bytes).padStart(8),
        times[0]!.toFixed(1).padStart(8),
        median(times.slice(1)).toFixed(1).padStart(8),
        ((after - before) / 1e6).toFixed(1).padStart(10),
      ].join(' '),
    );
  }
}
