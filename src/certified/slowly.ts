/** Says on stderr what is going on, but only once it takes longer than two seconds, and then not oftener than that. */

const PATIENCE_MS = 2000;

export function slowly(): (words: string) => void {
  let toldAt = Date.now();
  return (words) => {
    if (Date.now() - toldAt < PATIENCE_MS) return;
    toldAt = Date.now();
    process.stderr.write(`${words}\n`);
  };
}
