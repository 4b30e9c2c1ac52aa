/** A process that tries one device, named by its argument, and sends its parent how it went. */

import type { Device } from '../trainer/messages.ts';
import { probeDevice } from './device.ts';

const report = await probeDevice(process.argv[2] as Device);
process.send?.(report, undefined, undefined, () => process.exit(0));
