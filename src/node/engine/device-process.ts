/** Entry point of a process that probes the device in its first argument with the settings in its second. */
import type { Device } from '../../trainer/messages.ts';
import { probeDevice } from './device.ts';

const [device, settings] = process.argv.slice(2);
const report = await probeDevice(device as Device, JSON.parse(settings!));
process.send?.(report, undefined, undefined, () => process.exit(0));
