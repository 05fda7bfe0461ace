/**
 * A broken deploy: a workflow with the name of a run that throws on every history. It is bundled for a
 * worker of its own.
 */
export async function agentRun(): Promise<never> {
  // The error is no Temporal failure, so it fails the workflow task and not the run.
  throw new TypeError('this build is broken');
}
