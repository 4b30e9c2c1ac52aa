/** A process that tries one device, named by its argument, and sends its parent how it went. */
import { probeDevice } from './device.ts';
import type { Device } from './trainer/messages.ts';

const report = await probeDevice(process.argv[2] as Device);
process.send?.(report, undefined, undefined, () => process.exit(0));
