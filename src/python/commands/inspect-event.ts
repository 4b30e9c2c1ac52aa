/** `nostrain inspect-event EVENT`: checks one event of the Python reference and says what it says. */
import { Command } from 'commander';
import {
  indentedJson,
  type Json,
  type JsonObject,
  pythonFixed,
} from '../../formats/python-json.ts';
import { writeResult } from '../../terminal/output.ts';
import { inspectedEvent } from '../wire/describe-event.ts';
import { readEventFile } from './payloads.ts';

export const inspectEvent = (): Command =>
  new Command('inspect-event')
    .description('check a gradient, heartbeat or checkpoint event and print what it says')
    .argument('<event>', 'JSON file with one event')
    .option('--json', 'print one JSON object')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (path: string, { json, output }: { json?: true; output?: string }) => {
      const event = inspectedEvent(await readEventFile(path));
      const text = json ? indentedJson(event) : linesOf(event).join('\n');
      await writeResult(`${text}\n`, output);
    });

/** Members in the order of the lines; those an event has not are left out. */
const LINES = [
  'type',
  'event_id',
  'kind',
  'created_at',
  'signed',
  'signing_state',
  'pubkey',
  'run',
  'round',
  'worker',
  'history_slot',
  'next_round',
  'model',
  'rounds_completed',
  'checkpoint_updated_at',
  'heartbeat_interval',
  'steps',
  'example_count',
  'aggregation_weight',
  'compression',
  'parameter_count',
  'selected_values',
  'density',
  'wire_bytes',
  'compression_ratio',
  'capabilities',
  'advertised_relays',
];

const linesOf = (event: JsonObject): readonly string[] =>
  LINES.filter((name) => event[name] !== undefined).map(
    (name) => `${name}: ${wordOf(name, event[name]!, event)}`,
  );

function wordOf(name: string, value: Json, event: JsonObject): string {
  if (name === 'selected_values') return `${value}/${event.total_values}`;
  if (typeof value === 'number') return pythonFixed(value, name === 'density' ? 4 : 2);
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return value.join(', ') || '-';
  return value === null ? '-' : String(value);
}
