/**
 * Sets how long one activation of a workflow may take on its thread.
 *
 * The SDK ends an activation by the time limit of `node:vm`. When the limit strikes between two promises, Node.js
 * loses its place in the stack of async hooks and aborts the whole process ("async hook stack has become corrupted",
 * docs/adr/0057). So the limit must be one that a slow machine never reaches: an activation that replays a long history
 * takes seconds where the processor is shared. Workflow code here holds no user code, and every loop of it is bounded.
 */

/**
 * Options for a worker or a replayer. The SDK reads the field, whose type it does not export; its default is 5 s. A
 * minute is far above Temporal's own limit for a task (10 s), after which another attempt begins.
 */
export const PATIENT_THREADS = { isolateExecutionTimeout: '60s' } as const;
