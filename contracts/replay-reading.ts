/** How a replay is told apart that reads what a run would answer (`workflows/replay-reader.ts`): asking costs more than replaying. */

/** Begins the name of the queue that the replayed run sees. */
export const READING_QUEUE = 'countersign-reading';
