/** A process that tries one device, named by its first argument, on the model of the settings in its second, and tells its parent how it went. */
import type { Device } from '../../trainer/messages.ts';
import { probeDevice } from './device.ts';

const [device, settings] = process.argv.slice(2);
const report = await probeDevice(device as Device, JSON.parse(settings!));
process.send?.(report, undefined, undefined, () => process.exit(0));
