/** Counts how often other work of the process has its turn while something is done. */
export async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const other = (): void => {
    turns += 1;
    if (!isOver) setImmediate(other);
  };
  setImmediate(other);
  try {
    await work();
  } finally {
    isOver = true;
  }
  return turns;
}
