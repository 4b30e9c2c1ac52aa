/** Runs one member of a certified run in its own process, which reports its memory use on request. */
import { type MemberMemory, startMember } from './flood.ts';

const member = await startMember(process.argv[2]!);
let mostResident = 0;
setInterval(() => {
  mostResident = Math.max(mostResident, process.memoryUsage.rss());
}, 20);

function memory(): MemberMemory {
  const { rss, heapUsed, external } = process.memoryUsage();
  const most = Math.max(mostResident, rss);
  mostResident = 0;
  return {
    ...{ heard: member.heardBytes() / 1e6, resident: rss / 1e6, mostResident: most / 1e6 },
    ...{ heap: heapUsed / 1e6, external: external / 1e6 },
  };
}

process.on('message', () => process.send!(memory()));
process.send!(memory());
