/** Milliseconds of processor time this process has had: what other programs on the machine take does not count. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
